;;; The other end of a Passepartout connection, for tests/wire/test_passepartout_sbcl.py.
;;;
;;;   sbcl --script FILE daemon         prints the port that it listens on, and serves one client after another
;;;   sbcl --script FILE client PORT    connects again and again, until nobody listens
;;;
;;; Both answer a health check, say what they got of a health response, and send every other message back.

(require :sb-bsd-sockets)

(setf *read-eval* nil
      *print-pretty* nil)

;;; Frames

(defun take (count stream)
  "COUNT characters of STREAM, or fewer where it ends."
  (let ((text (make-string count)))
    (subseq text 0 (read-sequence text stream))))

(defun hear (stream)
  "The next message, or no value at all at the end."
  (let ((header (take 6 stream)))
    (if (zerop (length header))
        (values)
        (let* ((size (parse-integer header :radix 16))
               (text (take size stream)))
          (assert (= size (length text)))
          (multiple-value-bind (form end) (read-from-string text)
            (assert (= end size))
            form)))))

(defun say (message stream)
  (let ((text (format nil "~s" message)))
    (format stream "~6,'0x~a" (length text) text)
    (finish-output stream)))

;;; Both sides

(defun answer (message)
  (case (getf message :type)
    (:health-check '(:type :health-response :status :degraded :checked-p t))
    (:health-response (list :type :event :payload (list* :sensor :health (cddr message))))
    (t message)))

(defun echo (stream)
  (loop for heard = (multiple-value-list (hear stream))
        while heard
        do (say (answer (first heard)) stream)))

(defun difficult-text ()
  "Two lines with quotes, a backslash, and characters of two, three and four bytes."
  (format nil "~c~c~%\"quoted\" \\ ~c" (code-char #xE9) (code-char #x65E5) (code-char #x1F600)))

(defun call-with-stream (socket function)
  (let ((stream (sb-bsd-sockets:socket-make-stream
                 socket :input t :output t :buffering :full :element-type 'character :external-format :utf-8)))
    (unwind-protect
         (handler-case (funcall function stream)
           (error (problem) (format *error-output* "~a~%" problem)))
      (close stream :abort t))))

(defun tcp-socket ()
  (make-instance 'sb-bsd-sockets:inet-socket :type :stream :protocol :tcp))

;;; The daemon

(defun serve (stream)
  (say '(:type :event :payload (:action :handshake :version "0.7.2" :capabilities (:auth :org-ast))) stream)
  (echo stream))

(defun run-daemon ()
  (let ((listener (tcp-socket)))
    (sb-bsd-sockets:socket-bind listener #(127 0 0 1) 0)
    (sb-bsd-sockets:socket-listen listener 5)
    (format t "~d~%" (nth-value 1 (sb-bsd-sockets:socket-name listener)))
    (finish-output)
    (loop (call-with-stream (sb-bsd-sockets:socket-accept listener) #'serve))))

;;; The client

(defun visit (stream)
  (let* ((hello (hear stream))
         (payload (getf hello :payload)))
    (assert (eq :handshake (getf payload :action)))
    (say '(:type :health-check) stream)
    (say '(:type :request :payload (:action :auth :token "open sesame")) stream)
    (say (list :type :event
               :meta '(:source :tui)
               :payload (list :sensor :user-input :text (difficult-text)))
         stream)
    (say (list :type :status
               :version (getf payload :version)
               :capabilities (getf payload :capabilities)
               :values (list nil t 1/2 -7 (expt 2 100) 1.5 1.5d0 1d23 #\a #\Newline 'symbol :|mixed Case|
                             '(a . b) (vector 1 "two" :three) ''quoted ""))
         stream)
    (echo stream)))

(defun run-client (port)
  (loop
    (let ((socket (tcp-socket)))
      (sb-bsd-sockets:socket-connect socket #(127 0 0 1) port)
      (call-with-stream socket #'visit))))

(let ((argument (first (last *posix-argv*))))
  (if (string= argument "daemon")
      (run-daemon)
      (handler-case (run-client (parse-integer argument))
        (sb-bsd-sockets:connection-refused-error ()))))
