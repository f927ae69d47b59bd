"""The scripts that make bash, zsh and fish call `podfit __complete`."""

from __future__ import annotations

ASK = "__complete"

BASH = r"""# bash completion for podfit: source <(podfit completion bash)
_podfit() {
    local line=${COMP_LINE:0:COMP_POINT} out directive word candidate
    local -a typed
    # COMP_WORDS is split at = and :, so the line itself is read.
    read -ra typed <<<"$line"
    [[ $line == *[[:space:]] ]] && typed+=("")
    word=${typed[${#typed[@]}-1]}
    out=$("${typed[0]/#\~/$HOME}" __complete "${typed[@]:1}" 2>/dev/null) || return
    directive=${out##*:}
    out=${out%:*}
    # bash completes what follows the last = on its own.
    [[ $word == -*=* ]] && word=${word#*=}
    COMPREPLY=()
    while IFS= read -r candidate; do
        candidate=${candidate%%$'\t'*}
        [[ -n $candidate && $candidate == "$word"* ]] && COMPREPLY+=("$candidate")
    done <<<"$out"
    (( directive & 2 )) && compopt -o nospace 2>/dev/null
    if (( directive & 16 )); then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
    elif (( ! (directive & 4) )) && (( ${#COMPREPLY[@]} == 0 )); then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -F _podfit podfit"""

ZSH = r"""#compdef podfit
# zsh completion for podfit: podfit completion zsh > "${fpath[1]}/_podfit", or source <(podfit completion zsh)
_podfit() {
    local -a out described space
    local directive line name
    out=("${(@f)$("${(Q)words[1]}" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    directive=${out[-1]#:}
    out[-1]=()
    [[ ${words[CURRENT]} == -*=* ]] && compset -P '*='
    for line in "${out[@]}"; do
        name=${line%%$'\t'*}
        [[ -z $name ]] && continue
        if [[ $line == *$'\t'* ]]; then
            described+=("${name//:/\\:}:${line#*$'\t'}")
        else
            described+=("${name//:/\\:}")
        fi
    done
    (( directive & 2 )) && space=(-S '')
    if (( directive & 16 )); then
        _files -/
    elif (( ! (directive & 4) )) && (( ${#described} == 0 )); then
        _files
    else
        _describe -t podfit podfit described "${space[@]}"
    fi
}
if [[ "$funcstack[1]" == _podfit ]]; then
    _podfit "$@"
else
    compdef _podfit podfit
fi"""

FISH = r"""# fish completion for podfit: podfit completion fish > ~/.config/fish/completions/podfit.fish
function __podfit_complete
    set -l typed (commandline -opc)
    set -l word (commandline -ct)
    set -l out ($typed[1] __complete $typed[2..-1] "$word" 2>/dev/null)
    set -l directive (string replace ':' '' -- $out[-1])
    set -e out[-1]
    set -l before ''
    if string match -q -- '-*=*' "$word"
        set before (string replace -r '=.*' '=' -- "$word")
    end
    set -l rest (string replace -- "$before" '' "$word")
    for candidate in $out
        printf '%s%s\n' $before $candidate
    end
    if test (math "floor($directive / 16) % 2") -eq 1
        __fish_complete_directories $rest
    else if test (math "floor($directive / 4) % 2") -eq 0; and test (count $out) -eq 0
        __fish_complete_path $rest
    end
end
complete -c podfit -f -a '(__podfit_complete)'"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
