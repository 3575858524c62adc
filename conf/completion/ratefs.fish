# SPDX-License-Identifier: MIT
# fish completion of ratefs.  Options and their values come from the program (--dump-options), so that they are
# always its own.

# __ratefs_options WORD [SCOPE]: what the last "name", "name=" or "name=value" of the list WORD can become, as whole
# words, each with its description.  With SCOPE: only what can be set there while it is mounted.
function __ratefs_options --argument-names word scope
	ratefs --dump-options 2>/dev/null | RATEFS_WORD="$word" RATEFS_SCOPE="$scope" awk -F '\t' '
		BEGIN {
			kept = ENVIRON["RATEFS_WORD"]
			sub(/[^,]*$/, "", kept)
			item = substr(ENVIRON["RATEFS_WORD"], length(kept) + 1)
			scope = ENVIRON["RATEFS_SCOPE"]
			name = item
			valued = sub(/=.*/, "", name)
			if (match(name, /^(global|fs|mount|pool)\./))
				prefix = substr(name, 1, RLENGTH)
			name = substr(name, length(prefix) + 1)
		}
		function value(v) { print kept prefix $1 "=" v "\t" $7 }
		scope == "" && ($6 == "file only" || $2 == "class") { next }
		scope == "" && $2 == "pool" && prefix != "pool." && !valued { next }
		scope != "" && ($6 != "live" || !index($2, scope)) { next }
		prefix != "" && !index($2, substr(prefix, 1, length(prefix) - 1)) { next }
		!valued {
			bare = scope == "" && $3 ~ /^(fuse-flag|ignored|bool)$/
			print kept prefix $1 (bare ? "" : "=") "\t" $7
			next
		}
		$1 != name { next }
		$3 == "choice" || $3 == "bool" { n = split($4, w, "|"); for (i = 1; i <= n; i++) value(w[i]) }
		$3 == "rate" { value("off") }
		$3 == "timeout" { value("auto") }'
end

complete -c ratefs -f -a '(__fish_complete_directories (commandline -ct))'
complete -c ratefs -n __fish_is_first_arg -a run -d 'run one command, throttled'
set -l run '__fish_seen_subcommand_from run'
complete -c ratefs -n $run -s C -l directory -x -a '(__fish_complete_directories (commandline -ct))' -d 'throttle this directory'
complete -c ratefs -n $run -l report -r -F -d 'write the report to a file'
complete -c ratefs -n $run -l json -d 'write the report as JSON'
complete -c ratefs -n $run -l compare -d 'run it without ratefs first'
complete -c ratefs -n $run -s q -l quiet -d 'no report, no remarks'
complete -c ratefs -n $run -x -a '(__fish_complete_subcommand)'
complete -c ratefs -s o -x -d 'options' -a '(__ratefs_options (commandline -ct))'
complete -c ratefs -s c -l config -r -F -d 'serve the mounts of a configuration file'
complete -c ratefs -l check -d 'with -c: check the file and mount nothing'
complete -c ratefs -l force -d 'mount over another ratefs mount, or over /, /dev, /proc, /sys'
complete -c ratefs -l profiles -d 'the devices that profile= knows, or what one of them sets'
complete -c ratefs -s f -l foreground -d 'stay in the foreground'
complete -c ratefs -s d -l debug -d 'stay in the foreground and show every request'
complete -c ratefs -s h -l help -d 'show the help'
complete -c ratefs -s V -l version -d 'show the version'
