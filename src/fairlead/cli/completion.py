"""`fairlead completion`: what makes a shell complete fairlead's commands.

The scripts are small: all they know is how to ask `fairlead complete`, which knows the commands.
"""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import Argument, Command, parsed

# Each gives `fairlead complete` the words up to the cursor. Of its answer, a line is a candidate, maybe with
# a tab and what it means; or :files, :directories or :commands, which the shell knows better than we do.
SCRIPTS = {
    "bash": r"""# fairlead's completion for bash: eval "$(fairlead completion bash)"
_fairlead() {
    local line word at head=
    local -a words=()
    for ((at = 1; at <= COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        # bash takes HOST:NAME apart; what stands together in the line is one word
        if ((${#words[@]})) && [[ $word == :* || ${words[-1]} == *: ]] &&
            [[ $COMP_LINE == *"${words[-1]}$word"* ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done
    word=${words[-1]}
    if [[ $COMP_WORDBREAKS == *:* && $word == *:* ]]; then head=${word%"${word##*:}"}; fi
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
            :directories) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
            :commands) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -c -- "$word") ;;
            *) line=${line%%$'\t'*}; COMPREPLY+=("$(printf %q "${line#"$head"}")") ;;
        esac
    done < <("$1" complete -- "${words[@]}" 2>/dev/null)
}
complete -F _fairlead fairlead
""",
    "zsh": r"""#compdef fairlead
# fairlead's completion for zsh: eval "$(fairlead completion zsh)", after compinit
_fairlead() {
    local line
    local -a found
    for line in "${(@f)$(${words[1]} complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case $line in
            '') ;;
            :files) _files ;;
            :directories) _files -/ ;;
            :commands) _command_names -e ;;
            *$'\t'*) found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
            *) found+=("${line//:/\\:}") ;;
        esac
    done
    (( $#found )) && _describe -V fairlead found
}
if [ "$funcstack[1]" = _fairlead ]; then _fairlead "$@"; else compdef _fairlead fairlead; fi
""",
    "fish": r"""# fairlead's completion for fish: fairlead completion fish | source
function __fairlead_complete
    set -l words (commandline -opc)
    for line in (fairlead complete -- $words[2..-1] (commandline -ct) 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path (commandline -ct)
            case :directories
                __fish_complete_directories (commandline -ct)
            case :commands
                __fish_complete_command
            case '*'
                echo $line
        end
    end
end
complete -c fairlead -f -k -a '(__fairlead_complete)'
""",
}

COMMAND = Command(
    "completion",
    "Print a shell script that completes fairlead's commands, options, session names and files.",
    takes=(Argument("shell", "the shell", choices=tuple(SCRIPTS)),),
    examples=(
        ('eval "$(fairlead completion bash)"', "in ~/.bashrc"),
        ('eval "$(fairlead completion zsh)"', "in ~/.zshrc, after compinit"),
        ("fairlead completion fish > ~/.config/fish/completions/fairlead.fish", "once"),
    ),
    far="here: a shell's completion is of its own host",
)


def main(arguments: Sequence[str]) -> int:
    print(SCRIPTS[parsed(COMMAND, arguments).shell], end="")
    return 0
