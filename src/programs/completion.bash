# Completes the command lines of softhca and of the programs warpverbs-* in bash. The options and their kinds of values are those
# of --help.

# Prints the placeholder of an option's value, such as FILE; fails if the program has no such option, or it takes no value.
_warpverbs_value() { # <help> <option>
  awk -v option="$2" '/^  -/ {
      split($1, names, ",")
      for (i in names) if (names[i] == option && match(substr($0, 3), /^[^ ]+ [^ ]/)) { print $2; found = 1; exit }
    }
    END { exit !found }' <<<"$1"
}

_warpverbs() { # <command> <current word> <previous word>
  local command=${1/#\~/$HOME} current=$2 option=$3 help words='' value='' i
  COMPREPLY=()
  if [[ ${1##*/} == softhca ]]; then
    for ((i = 1; i < COMP_CWORD; ++i)); do
      [[ ${COMP_WORDS[i]} == -- ]] || continue
      # A program and its arguments follow. Only the bash-completion package completes its arguments.
      if declare -F _command_offset >/dev/null; then
        _command_offset $((i + 1))
      elif ((COMP_CWORD == i + 1)); then
        mapfile -t COMPREPLY < <(compgen -c -- "$current")
      else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
      fi
      return
    done
  fi
  help=$("$command" --help 2>/dev/null) || return
  if [[ $current == = ]]; then # --option=
    option=$3 current=
  elif [[ $option == = ]]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if value=$(_warpverbs_value "$help" "$option") && [[ $value != \[* || $current != -* ]]; then
    case $option:$value in
      --only:* | --skip:*) words=$("$command" --list 2>/dev/null | awk '{ print $1 }') ;;
      --device:NAME | --ib-dev:NAME | -d:NAME) words=$(cd /sys/class/infiniband 2>/dev/null && echo *) ;;
      --interface:*) words=$(cd /sys/class/net && echo *) ;;
      --log:LEVEL*) words="warning info debug trace" ;;
      *:*\|*) words=${value//|/ } ;;
      *:*FILE*) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    esac
  else
    words=$(awk '/^  -/ { gsub(",", " ", $1); print $1 }' <<<"$help")
    [[ ${1##*/} == softhca ]] && words+=" --"
  fi
  [[ -z $words ]] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -o bashdefault -F _warpverbs softhca warpverbs-doctor warpverbs-filed warpverbs-gpuiod \
  warpverbs-info warpverbs-perf warpverbs-trace
