# SPDX-License-Identifier: MIT
# fish completion of ratefsctl.  Commands come from the program (--dump-commands), targets from the running daemons,
# options from ratefs (--dump-options).

functions -q __ratefs_options; or source (status dirname)/ratefs.fish

# The words of the command line that are neither flags nor the daemon: command, target, ...  The commands that
# begin with "class" have two words, and are one here.
function __ratefsctl_words
	set -l skip
	set -l class
	for word in (commandline -opc)[2..-1]
		if test -n "$skip"
			set skip
		else if contains -- $word -d --daemon
			set skip yes
		else if test -n "$class"
			echo "class $word"
			set class
		else if test "$word" = class
			set class yes
		else if not string match -q -- '-*' $word
			echo $word
		end
	end
	test -z "$class"; or echo class
end

# Column N of the row of the command that was typed: 2 arguments, 3 flags.
function __ratefsctl_column --argument-names n
	set -l words (__ratefsctl_words)
	ratefsctl --dump-commands 2>/dev/null | awk -F '\t' -v n=$n -v name="$words[1]" '$1 == name { print $n }'
end

function __ratefsctl_targets --argument-names which
	ratefsctl list --json 2>/dev/null | grep -oE '"(name":"[^"]*","mountpoint|fs|scope":"pool","of)":"[^"]*"' |
		sed -nE 's/^"name":"(.*)","mountpoint":"(.*)"$/\1\n\2/p; s/^"fs":"(.*)"$/fs:\1/p; s/^"scope":"pool","of":"(.*)"$/pool:\1/p' |
		if test "$which" = all; sort -u; else; grep -vE '^(fs|pool):' | sort -u; end
	test "$which" != all; or echo global
	test "$which" != all; or __ratefsctl_classes
end

# MOUNT/CLASS
function __ratefsctl_classes
	ratefsctl class list 2>/dev/null | awk 'NR > 1 { print $1 }'
end

# The words that fit at the cursor.
function __ratefsctl_complete
	set -l words (__ratefsctl_words)
	if test (count $words) -eq 0
		ratefsctl --dump-commands 2>/dev/null | awk -F '\t' '
			$1 ~ /^class / { if (!class++) print "class\tadd, remove and list classes of callers"; next }
			{ print $1 "\t" $4 }'
		return
	end
	if test "$words" = class
		ratefsctl --dump-commands 2>/dev/null | awk -F '\t' 'sub(/^class /, "", $1) { print $1 "\t" $4 }'
		return
	end
	set -l args (__ratefsctl_column 2)
	if test (count $words) -eq 1
		if string match -q 'MOUNT/CLASS*' -- $args
			__ratefsctl_classes
		else if string match -q '*TARGET*' -- $args
			__ratefsctl_targets all
		else if string match -qr 'NAME|MOUNT' -- $args
			__ratefsctl_targets mounts
		end
		return
	end
	string match -q '*KEY=*' -- $args; or return
	set -l scope mount
	switch $words[2]
		case global
			set scope global
		case 'pool:*'
			set scope pool
		case 'fs:*'
			set scope fs
		case '/*'
		case '*/*'
			set scope class
	end
	test "$words[1]" != 'class add'; or set scope class
	__ratefs_options (commandline -ct) $scope
end

complete -c ratefsctl -f -a '(__ratefsctl_complete)'
complete -c ratefsctl -s d -l daemon -x -d 'talk to this daemon only' \
	-a '(ratefsctl list --json 2>/dev/null | grep -oE \'"pid":[0-9]+\' | cut -d: -f2)'
complete -c ratefsctl -s j -l json -d 'print JSON'
complete -c ratefsctl -l before -x -d 'class add: try the new class before this one'
complete -c ratefsctl -l key -x -d 'trace: events of this caller only'
complete -c ratefsctl -l min-wait -x -d 'trace: requests that waited so long'
complete -c ratefsctl -l save -n 'string match -q "*--save*" -- (__ratefsctl_column 3)' -d 'write to the configuration file, too'
complete -c ratefsctl -l force -n 'string match -q "*--force*" -- (__ratefsctl_column 3)' -d 'also a mount in use'
complete -c ratefsctl -s h -l help -d 'show the help'
complete -c ratefsctl -s V -l version -d 'show the version'
