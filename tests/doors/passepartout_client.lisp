;;; A conversation of examples/lisp/fairlead.lisp with a real daemon, for tests/doors/test_passepartout_sbcl.py.
;;;
;;;   sbcl --script FILE CLIENT PORT
;;;
;;; Prints what it learnt, one form a line.

(load (second *posix-argv*))

(defvar *events* '())
(setf fairlead:*on-event* (lambda (message) (push message *events*)))

(defun tell (&rest values)
  (with-standard-io-syntax
    (let ((*print-readably* nil)) (format t "~s~%" values)))
  (finish-output))

(defun text-of (&rest parts)
  (apply #'concatenate 'string (mapcar #'string parts)))

(defun token ()
  "The token of the last thing that waits for consent."
  (loop for message in *events*
        for payload = (fairlead:proto-get message :payload)
        when (eq :approval-required (fairlead:proto-get payload :sensor))
          do (return (fairlead:proto-get payload :token))))

(defun until-asked (daemon)
  (loop until (token) do (funcall fairlead:*on-event* (fairlead:next-message daemon))))

(defun rest-of-answer (daemon)
  (loop for message = (fairlead:next-message daemon)
        for payload = (fairlead:proto-get message :payload)
        until (and (eq :message (fairlead:proto-get payload :action))
                   (string= "" (fairlead:proto-get payload :text)))))

(fairlead:with-daemon (daemon :port (parse-integer (third *posix-argv*)))
  (tell :hello (fairlead::daemon-version daemon) (fairlead::daemon-capabilities daemon))
  (tell :health (fairlead:health daemon))
  (tell :help (search "/approve" (fairlead:ask daemon "/help" :to nil)))
  ;; a text of several lines, with characters of two, three and four bytes, to the agent and into a file
  (let ((text (text-of "write note.txt:" #\Newline (code-char #xE9) (code-char #x65E5) #\" #\\ #\Newline
                       (code-char #x1F600))))
    (fairlead:say daemon text :session "lisp")
    (until-asked daemon)
    (tell :health-meanwhile (fairlead:health daemon))
    (fairlead:say daemon (format nil "/approve ~a" (token)))
    (rest-of-answer daemon)
    (rest-of-answer daemon))
  (tell :read (fairlead:ask daemon "read note.txt" :session "lisp" :to nil))
  ;; something of the daemon's own that waits, and is denied
  (setf *events* '())
  (tell :asked (search "waits for your consent" (fairlead:ask daemon "/run rm nothing" :to nil)))
  (until-asked daemon)
  (tell :denied (fairlead:deny daemon (token)))
  (tell :denied-again (search "answered already" (fairlead:deny daemon (token))))
  (tell :unknown (fairlead:ask daemon "/nonsense" :to nil))
  (tell :refused (handler-case (fairlead:ask daemon "" :to nil)
                   (error (problem) (princ-to-string problem))))
  ;; every event came through the reader too
  (tell :events (every #'listp *events*)))
