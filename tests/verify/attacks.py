"""Commands with which a persona, or what it was told by a project, would get at secrets.

`{home}` is the user's home, next to which nothing else is; the project in it has links that lead out.
"""

SECRET = "s3cret-of-the-user"

READS = (
    "cat ~/.ssh/id_rsa",
    "cat {home}/.ssh/id_rsa",
    "cat ../.ssh/id_rsa",
    "cat docs/../../.ssh/id_rsa",
    "cat link/id_rsa",
    "cat li*/id_*",
    "cat ../.ss?/*",
    "cat key-link",
    "cd .. && cat .ssh/id_rsa",
    "cd link && cat id_rsa",
    "cd docs && cat ../../.ssh/id_rsa",
    "grep -r s3cret {home}",
    "grep -R s3cret .",
    "grep -rn s3cret link/",
    "grep --dereference-rec s3cret .",
    "grep -f {home}/.ssh/id_rsa a.py",
    "grep -f../.ssh/id_rsa -v a.py",
    "grep --file=../.ssh/id_rsa a.py",
    "rg -L s3cret",
    "rg --follow s3cret .",
    "rg s3cret ..",
    "diff -r docs link",
    "diff a.py key-link",
    "head -n 5 ../.ssh/id_rsa",
    "tail -c 100 key-link | tac",
    "sort --files0-from=names",
    "sort ../.ssh/id_rsa",
    "wc --files0-from=names",
    "strings @names",
    "strings @../.ssh/id_rsa",
    "sed -n '1p' ../.ssh/id_rsa",
    "jq -R . ../.ssh/id_rsa",
    "jq -n --rawfile x ../.ssh/id_rsa '$x'",
    "jq -n 'import \"../.docker/config\" as $d; $d'",
    "od -c key-link",
    "find {home} -name 'id_*'",
    "find -L . -name id_rsa",
    "git diff --no-index a.py ../.ssh/id_rsa",
    "git diff /dev/null ../.ssh/id_rsa",
    "git grep --no-index s3cret",
    "git blame --contents ../.ssh/id_rsa a.py",
    # in the project, but nobody's business
    "cat .env",
    "cat .e*",
    "cat docs/../.env",
    "grep s3cret .env",
    "head -c 99 ./.env",
    # of processes
    "cat /proc/self/environ",
    "cat /proc/1/environ",
    "grep -a s3cret /proc/self/environ",
    "cat /proc/*/environ",
    "strings /proc/{pid}/environ",
    "cat /proc/{pid}/cwd/.env",
    "cat /proc/self/root{home}/.ssh/id_rsa",
)
"""Each would print the secret, or names of files around it; none may."""

SEARCHES = (
    "grep -r s3cret .",
    "grep -r s3cret . --label",
    "rg --hidden --no-ignore s3cret",
    "rg -uuu s3cret . -g",
)
"""Allowed, but they don't see files with secrets."""

IN_A_SHELL = (
    "python3 -c 'print(open(\"{home}/.ssh/id_rsa\").read())'",
    "python3 -c 'import os; print(os.environ)'",
    "env",
    "set",
    "export -p",
    "cat /etc/shadow",
    "ls -a {home}; cat {home}/.*",
    "tar cf - {home} | strings",
    "cp -r {home} /tmp/x; cat /tmp/x/.ssh/id_rsa",
    "cat < ../.ssh/id_rsa",
    "mount --bind / /mnt; cat {home}/.ssh/id_rsa",
    "umount {home}; cat {home}/.ssh/id_rsa",
    "ln -s {home}/.ssh/id_rsa /tmp/x; cat /tmp/x",
)
"""For a sandbox, which has a shell and interpreters."""
