;;; A small client of Fairlead's daemon for SBCL, over TCP. It needs nothing but SBCL.
;;;
;;;   (load "fairlead.lisp")
;;;   (fairlead:with-daemon (daemon)                     ; or (daemon :port 9105 :token "…")
;;;     (fairlead:health daemon)                         ; => :HEALTHY
;;;     (fairlead:ask daemon "what is in src?"))         ; prints the answer as it comes, and gives it
;;;
;;; What comes in between, such as something that waits for your consent, goes to FAIRLEAD:*ON-EVENT*; then
;;; (fairlead:approve daemon token) or (fairlead:deny daemon token).

(require :sb-bsd-sockets)

(defpackage :fairlead
  (:use :cl)
  (:export #:connect #:disconnect #:with-daemon #:daemon-version #:daemon-capabilities
           #:send #:next-message #:proto-get
           #:health #:say #:ask #:approve #:deny #:cancel #:*on-event*))

(in-package :fairlead)

(defvar *on-event* nil
  "A function of one message, called with whatever comes that is no part of an answer.")

(defconstant +header+ 6 "How many hex digits a frame begins with.")
(defconstant +max-frame+ #xFFFFFF "How many characters a frame can have.")

(defstruct daemon socket stream version capabilities)

;;; Frames: six hex digits, then that many characters of one printed form

(defun proto-get (plist key)
  "What stands under KEY, a keyword, in a plist whose keys may be in any case."
  (when (listp plist)
    (loop for (name value) on plist by #'cddr
          when (and (keywordp name) (string-equal name key)) do (return value))))

(defun send (daemon message)
  "Send MESSAGE, a plist, in one piece."
  (let ((text (with-standard-io-syntax
                (let ((*print-readably* nil)) (prin1-to-string message))))
        (stream (daemon-stream daemon)))
    (when (> (length text) +max-frame+)
      (error "A message of ~d characters; a frame holds at most ~d." (length text) +max-frame+))
    (format stream "~6,'0x~a" (length text) text)
    (finish-output stream)))

(defun take (count stream)
  (let ((text (make-string count)))
    (unless (= count (read-sequence text stream))
      (error 'end-of-file :stream stream))
    text))

(defun next-message (daemon)
  "The next message of the daemon; signals END-OF-FILE when it has gone."
  (let* ((stream (daemon-stream daemon))
         (size (parse-integer (take +header+ stream) :radix 16))
         (text (take size stream)))
    (with-standard-io-syntax
      (let ((*read-eval* nil)
            (*package* (find-package :fairlead)))
        (multiple-value-bind (message end) (read-from-string text)
          (assert (= end size) () "~d characters after a message" (- size end))
          message)))))

;;; Connections

(defun connect (&key (port 9105) token)
  "Connect to the daemon on this machine. TOKEN proves who you are where your socket does not."
  (let ((socket (make-instance 'sb-bsd-sockets:inet-socket :type :stream :protocol :tcp)))
    (sb-bsd-sockets:socket-connect socket #(127 0 0 1) port)
    (let* ((stream (sb-bsd-sockets:socket-make-stream
                    socket :input t :output t :buffering :full
                           :element-type 'character :external-format :utf-8))
           (daemon (make-daemon :socket socket :stream stream))
           (payload (proto-get (next-message daemon) :payload)))
      (unless (eq :handshake (proto-get payload :action))
        (error "The daemon did not begin with a handshake."))
      (setf (daemon-version daemon) (proto-get payload :version)
            (daemon-capabilities daemon) (proto-get payload :capabilities))
      (when token
        (send daemon (list :type :request :payload (list :action :auth :token token))))
      daemon)))

(defun disconnect (daemon)
  (close (daemon-stream daemon) :abort t))

(defmacro with-daemon ((name &rest options) &body body)
  "Run BODY with NAME connected to the daemon."
  `(let ((,name (connect ,@options)))
     (unwind-protect (progn ,@body) (disconnect ,name))))

;;; What can be asked

(defun note (message)
  (when *on-event* (funcall *on-event* message)))

(defun health (daemon)
  "How the daemon is: :HEALTHY, :DEGRADED, :UNHEALTHY or :UNKNOWN; and whether it has looked."
  (send daemon '(:type :health-check))
  (loop for message = (next-message daemon)
        when (eq :health-response (proto-get message :type))
          do (return (values (proto-get message :status) (proto-get message :checked-p)))
        do (note message)))

(defun say (daemon text &key session)
  "Say TEXT without waiting for the answer."
  (send daemon (list :type :event
                     :meta (append (list :source :tui) (when session (list :session session)))
                     :payload (list :sensor :user-input :text text))))

(defun part-of-answer (message)
  "The text of MESSAGE if it is a piece of an answer."
  (let ((payload (proto-get message :payload)))
    (when (and (eq :request (proto-get message :type)) (eq :message (proto-get payload :action)))
      (proto-get payload :text))))

(defun refusal (message)
  "Why the daemon did not take what was sent, if MESSAGE says that."
  (let ((payload (proto-get message :payload)))
    (when (and (eq :log (proto-get message :type)) (eq :error (proto-get payload :level)))
      (proto-get payload :text))))

(defun ask (daemon text &key session (to *standard-output*))
  "Say TEXT, write the answer to the stream TO as it comes, and give it whole. It ends with an empty text."
  (say daemon text :session session)
  (with-output-to-string (whole)
    (loop for message = (next-message daemon)
          for part = (part-of-answer message)
          do (cond ((refusal message) (error "The daemon refused: ~a" (refusal message)))
                   ((null part) (note message))
                   ((string= "" part) (return))
                   (t (write-string part whole)
                      (when to
                        (write-string part to)
                        (finish-output to)))))))

(defun approve (daemon token)
  (ask daemon (format nil "/approve ~a" token) :to nil))

(defun deny (daemon token)
  (ask daemon (format nil "/deny ~a" token) :to nil))

(defun cancel (daemon)
  "End the answer that is under way."
  (send daemon '(:type :event :payload (:action :cancel-stream))))
