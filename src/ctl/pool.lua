-- SPDX-License-Identifier: MIT
-- One limit over many hosts: what a call of a member does to its pool, in Redis or Valkey.
-- The same rules, in the same order, as src/pool/server.c; src/pool/pool.h explains them.
--
-- KEYS[1]  the pool: a hash
--            v      the format of all others: another number when any of them changes
--            s      time and levels     l  limits     w  who set them     r  the server's run_id
--            m:ID   one member: seq called expires weight, charge and demand of each limit, host
-- ARGV     id host seq lease_us weight leave version, rates, capacities, sets, holds, demands (one of each per limit)
-- Answers  status members wants_more version who, then of each limit: rate capacity grant
--
-- Rates are in 1/1000 token per second, times in microseconds: whole numbers below 2^53.
local FORMAT, LIMITS, FEW, FORGET, MEMBERS_MAX, VERSION_MAX = 1, 7, 32, 20, 4096, 2 ^ 52
local GRANTED, LEARNING, STALE, FULL = 0, 1, 2, 3
local key = KEYS[1]

local function numbers(text)
	local t, n = {}, 0
	for word in string.gmatch(text, '[^ ]+') do
		n = n + 1
		t[n] = tonumber(word) or word
	end
	return t
end

local function text(t)
	local words = {}
	for i = 1, #t do
		words[i] = type(t[i]) == 'number' and string.format('%.17g', t[i]) or t[i]
	end
	return table.concat(words, ' ')
end

-- The call ------------------------------------------------------------------

local id, who, seq = ARGV[1], ARGV[2], tonumber(ARGV[3])
local lease, weight = tonumber(ARGV[4]), tonumber(ARGV[5])
local leave, version = ARGV[6] == '1', tonumber(ARGV[7])
local function arg(block, k) return tonumber(ARGV[7 + block * LIMITS + k]) end
local RATE, CAPACITY, SET, HOLD, DEMAND = 0, 1, 2, 3, 4

-- The state -----------------------------------------------------------------

local stored = redis.call('HMGET', key, 's', 'l', 'w', 'r', 'm:' .. id, 'v')
if stored[1] and tonumber(stored[6]) ~= FORMAT then
	return redis.error_reply('ERR another version of ratefs uses this pool')
end
local s = {last = 0, offset = 0, learn_until = 0, computed = 0, lease = 0, n = 0, version = 0}
local level, charged, limits = {}, {}, {}
for k = 1, LIMITS do
	level[k], charged[k] = {-1, 0, 0}, 0
end
if stored[1] then
	local v = numbers(stored[1])
	s.last, s.offset, s.learn_until, s.computed = v[1], v[2], v[3], v[4]
	s.lease, s.n, s.version = v[5], v[6], v[7]
	for k = 1, LIMITS do
		level[k] = {v[4 + 4 * k], v[5 + 4 * k], v[6 + 4 * k]}
		charged[k] = v[7 + 4 * k]
	end
end
limits = stored[2] and numbers(stored[2]) or {} -- rate 1, capacity 1, rate 2, ...
local set_by = stored[3] or ''
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or '0'
local doubtful = stored[1] and stored[4] ~= run_id

local m = stored[5] and numbers(stored[5]) -- seq called expires weight charge demand ...
local function charge(k) return 3 + 2 * k end
local function demand(k) return 4 + 2 * k end

-- Time: advances it, and starts to learn if there may be leases that the data does not have ----------

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
if KEYS[2] then now = tonumber(redis.call('GET', KEYS[2])) end -- a test's clock
local t = now + s.offset
if lease > s.lease then s.lease = lease end
local learn = doubtful or s.last == 0 or t - s.last > s.lease
if t - s.last > FORGET * s.lease then
	s.version = 0
	s.lease = lease
end
if t < s.last then -- the clock was set back
	s.offset = s.offset + s.last - t
	t = s.last
	learn = true
end
s.last = t
if learn then s.learn_until = t + s.lease end
local function learning() return s.last < s.learn_until end

-- Levels: max-min by demand and weight (src/pool/divide.c) -------------------------------------------

local function drop(name, rec)
	for k = 1, LIMITS do charged[k] = charged[k] - rec[charge(k)] end
	redis.call('HDEL', key, 'm:' .. name)
	s.n = s.n - 1
end

-- Counts the members anew: somebody may have deleted some by hand.
local function count(members)
	s.n = #members
	for k = 1, LIMITS do
		local sum, field = 0, charge(k)
		for i = 1, s.n do sum = sum + members[i][field] end
		charged[k] = sum
	end
end

local function divide(rate, wish)
	local left, all, total = rate, 0, 0
	for i = 1, #wish do all = all + wish[i][2] end
	for i = 1, #wish do
		if total <= rate then total = total + wish[i][1] end
	end
	if total <= rate then return {-1, rate - total, all} end
	local w, lev, again = all, -1, true
	while again and w > 0 do
		lev, again = left / w, false
		for i = 1, #wish do
			local d = wish[i]
			if not d[3] and d[1] <= lev * d[2] then
				d[3], again = true, true
				left, w = left - d[1], w - d[2]
			end
		end
	end
	return {lev, 0, all}
end

local function share(lv, rate, want, w)
	local got = want
	if lv[1] >= 0 then
		got = math.min(want, lv[1] * w)
	elseif lv[3] > 0 then
		got = want + lv[2] * w / lv[3]
	end
	return math.floor(math.min(got, rate))
end

local function compute_levels()
	local all, members = redis.call('HGETALL', key), {}
	for i = 1, #all, 2 do
		local name = string.match(all[i], '^m:(.*)')
		if name and name ~= id then
			local rec = numbers(all[i + 1])
			if rec[3] <= s.last then drop(name, rec) else members[#members + 1] = rec end
		end
	end
	if m then members[#members + 1] = m end
	count(members)
	local longest = 0
	for i = 1, #members do longest = math.max(longest, members[i][3] - members[i][2]) end
	if longest > 0 then s.lease = longest end
	for k = 1, LIMITS do
		local rate = limits[2 * k - 1]
		if rate > 0 then
			local wish = {}
			for i = 1, #members do
				wish[i] = {math.min(members[i][demand(k)], rate), members[i][4], false}
			end
			level[k] = divide(rate, wish)
		end
	end
	s.computed = s.last
end

local function outdated() return s.last - s.computed >= math.floor(s.lease / 4) end

-- The member ----------------------------------------------------------------

local status, wants_more, grant = GRANTED, 0, {0, 0, 0, 0, 0, 0, 0}

-- Without limits of its own, or with older ones, the server adopts those of the call.  Limits from the configuration of
-- a member have version 1 while the server learns: members that know those in force, which were lost, have a higher one.
local function adopt_limits()
	local adopts = s.version == 0 or version > s.version
	if adopts then
		for k = 1, LIMITS do
			limits[2 * k - 1], limits[2 * k] = arg(RATE, k), arg(CAPACITY, k)
		end
		s.version = math.max(version, 1)
	end
	if s.version == 1 and not learning() then s.version = 2 end
	return adopts
end

-- Changes the limits that the member sets with this call for the first time.
local function set_limits()
	local changed = false
	for k = 1, LIMITS do
		local r, c = arg(RATE, k), arg(CAPACITY, k)
		if arg(SET, k) > (m and m[1] or 0) and (limits[2 * k - 1] ~= r or limits[2 * k] ~= c) then
			limits[2 * k - 1], limits[2 * k] = r, c
			changed = true
		end
	end
	if changed then s.version = math.min(s.version + 1, VERSION_MAX) end
	return changed
end

local function take_note()
	m = {seq, s.last, s.last + lease, weight}
	for k = 1, LIMITS do
		m[charge(k)], m[demand(k)] = arg(HOLD, k), arg(DEMAND, k)
	end
	m[5 + 2 * LIMITS] = who
end

local function grant_of(k)
	local rate, hold = limits[2 * k - 1], m[charge(k)]
	local others = charged[k] - hold
	local room = math.max(rate - others, 0)
	local want = hold
	if not learning() then
		want = share(level[k], rate, math.min(m[demand(k)], rate), m[4])
	end
	if want > room then wants_more = 1 end
	grant[k] = math.min(want, room)
	m[charge(k)] = math.max(hold, grant[k])
	charged[k] = others + m[charge(k)]
end

local function serve()
	local old = m
	local adopted = adopt_limits()
	local changed = set_limits() or adopted
	if changed then set_by = who end
	if not old and s.n >= MEMBERS_MAX and outdated() then compute_levels() end -- most of them may have gone
	if not old and s.n >= MEMBERS_MAX then
		status = FULL
		return
	end
	take_note()
	for k = 1, LIMITS do
		charged[k] = charged[k] + m[charge(k)] - (old and old[charge(k)] or 0)
	end
	if not old then s.n = s.n + 1 end
	if changed or s.n <= FEW or outdated() then compute_levels() end
	for k = 1, LIMITS do
		if limits[2 * k - 1] > 0 then grant_of(k) end
	end
	status = learning() and LEARNING or GRANTED
	redis.call('HSET', key, 'm:' .. id, text(m))
end

if m and seq <= m[1] then
	status = STALE
elseif leave then
	if m then drop(id, m) end
else
	serve()
end

-- Store and answer ----------------------------------------------------------

local v = {s.last, s.offset, s.learn_until, s.computed, s.lease, s.n, s.version}
for k = 1, LIMITS do
	v[4 + 4 * k], v[5 + 4 * k], v[6 + 4 * k] = level[k][1], level[k][2], level[k][3]
	v[7 + 4 * k] = charged[k]
end
redis.call('HSET', key, 's', text(v), 'l', text(limits), 'w', set_by, 'r', run_id, 'v', FORMAT)
redis.call('PEXPIRE', key, math.floor(FORGET * s.lease / 1000) + 1000)
local function whole(n) return string.format('%.0f', n or 0) end
local answer = {whole(status), whole(s.n), whole(wants_more), whole(s.version), set_by}
for k = 1, LIMITS do
	answer[3 + 3 * k], answer[4 + 3 * k] = whole(limits[2 * k - 1]), whole(limits[2 * k])
	answer[5 + 3 * k] = whole(grant[k])
end
return answer
