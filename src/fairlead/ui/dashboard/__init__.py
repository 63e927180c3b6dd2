"""The dashboard: all sessions on one screen, what `fairlead` alone in a terminal shows.

Three parts, each of which knows only those before it:

- What is known, without Textual and without I/O: `model` has the sessions as `ls` sorts them, their questions
  and a log of what happened; `board` makes of it the lines of the main screen, `texts` those of the views
  that only show something; `gate` decides whether a key is the answer to a question.
- `link` talks to the daemon, in threads of its own: one follows what happens, one fetches the preview of the
  session that is selected, and each thing that a person asks for (`acts`) has one for itself. None of them is
  waited for, neither while the daemon is stopped or being restarted nor when the dashboard is left.
- Textual, imported nowhere else: `painted` is a widget that draws lines with colours and only those that have
  changed, `app` the main screen with its keys, `views` and `writing` what is shown above it.

Lines are text with a terminal's colours in them, as `ui.plot` makes them; `painted` takes nothing else from
them, so that no name, question or output can do anything but be seen. A key is handled first: the preview,
the ages and what the daemon says are drawn a little later, a few times a second. Attaching runs the real
command in this terminal, and the dashboard goes on when it ends.
"""
