;;; driver.el --- drives `fairlead rpc' as psi's frontend does -*- lexical-binding: t -*-

;; Run in batch mode: set `driver-command', then call one of the talks at the end.  It prints what comes, and
;; ends with an error at the first frame that is not plain EDN, has a wrong envelope or lacks a key.

;;; Code:

(require 'seq)
(require 'subr-x)

(defvar driver-command nil "The backend: a program and its arguments.")
(defconst driver-patience 20 "Seconds until something that does not come is an error.")

;; --- EDN: nil, booleans, integers, doubles, strings, keywords, vectors and maps; anything else is an error ---

(defconst driver-end "\\(?:[][(){}\" ,]\\|\\'\\)" "What may follow a number, a keyword or a name.")

(defun driver-read (text)
  "The one form in TEXT: false is :false, a map is a hash table."
  (with-temp-buffer
    (insert text)
    (goto-char (point-min))
    (let ((form (driver-form)))
      (driver-blank)
      (unless (eobp) (driver-refuse "more than one form"))
      form)))

(defun driver-refuse (why)
  (error "Bad frame, %s at %d: %s" why (point) (buffer-string)))

(defun driver-blank ()
  (skip-chars-forward " ,"))

(defun driver-form ()
  (driver-blank)
  (cond
   ((looking-at "{") (driver-map))
   ((looking-at "\\[") (vconcat (driver-forms ?\])))
   ((looking-at "\"") (driver-string))
   ((looking-at (concat "\\(nil\\|true\\|false\\)" driver-end))
    (goto-char (match-end 1))
    (cdr (assoc (match-string 1) '(("nil") ("true" . t) ("false" . :false)))))
   ((looking-at (concat "\\(:[a-zA-Z*!_?$%&=<>+.-][a-zA-Z0-9*!_?$%&=<>+.#:-]*"
                        "\\(?:/[a-zA-Z0-9*!_?$%&=<>+.#:-]+\\)?\\)" driver-end))
    (goto-char (match-end 1))
    (intern (match-string 1)))
   ((looking-at (concat "\\(-?\\(?:0\\|[1-9][0-9]*\\)\\(?:\\.[0-9]+\\)?\\(?:[eE][-+]?[0-9]+\\)?\\)" driver-end))
    (goto-char (match-end 1))
    (string-to-number (match-string 1)))
   (t (driver-refuse "no plain EDN"))))

(defun driver-forms (end)
  "The forms up to END."
  (forward-char)
  (let (forms)
    (driver-blank)
    (while (not (eql (char-after) end))
      (when (eobp) (driver-refuse "not closed"))
      (push (driver-form) forms)
      (driver-blank))
    (forward-char)
    (nreverse forms)))

(defun driver-map ()
  (let ((forms (driver-forms ?})) (map (make-hash-table :test 'equal)))
    (unless (= 0 (% (length forms) 2)) (driver-refuse "a key without a value"))
    (while forms
      (puthash (pop forms) (pop forms) map))
    map))

(defun driver-string ()
  (unless (looking-at "\"\\(\\(?:[^\"\\]\\|\\\\\\(?:[\"\\ntrbf]\\|u[0-9a-fA-F]\\{4\\}\\)\\)*\\)\"")
    (driver-refuse "a string with an unknown escape"))
  (goto-char (match-end 0))
  (let ((escapes '((?n . "\n") (?t . "\t") (?r . "\r") (?b . "\b") (?f . "\f"))))
    (replace-regexp-in-string
     "\\\\\\(?:u\\(....\\)\\|\\(.\\)\\)"
     (lambda (found)
       (if (eql (aref found 1) ?u)
           (string (string-to-number (substring found 2) 16))
         (alist-get (aref found 1) escapes (substring found 1))))
     (match-string 1) t t)))

(defun driver-write (value)
  "VALUE as EDN: a list of keys and values is a map."
  (cond
   ((stringp value) (let ((print-escape-newlines t)) (prin1-to-string value)))
   ((vectorp value) (concat "[" (mapconcat #'driver-write value " ") "]"))
   ((hash-table-p value)
    (let (parts)
      (maphash (lambda (key inner) (push (driver-write key) parts) (push (driver-write inner) parts)) value)
      (concat "{" (string-join (nreverse parts) " ") "}")))
   ((consp value) (concat "{" (mapconcat #'driver-write value " ") "}"))
   ((eq value t) "true")
   ((eq value :false) "false")
   ((null value) "{}")
   (t (format "%s" value))))

(defun driver-get (map &rest keys)
  "What is in MAP under KEYS, one inside the other."
  (seq-reduce (lambda (map key) (and (hash-table-p map) (gethash key map))) keys map))

;; --- frames ------------------------------------------------------------------------------------------------

(defconst driver-topics
  '(("session/updated" :session-id :phase :is-streaming :is-compacting :pending-message-count :retry-attempt
     :interrupt-pending)
    ("session/resumed" :session-id :session-file :message-count)
    ("session/rehydrated" :messages :tool-calls :tool-order :session-id)
    ("context/updated" :active-session-id :sessions)
    ("assistant/delta" :text :session-id)
    ("assistant/thinking-delta" :text :session-id)
    ("assistant/message" :role :content :session-id)
    ("tool/start" :tool-id :tool-name :session-id)
    ("tool/executing" :tool-id :tool-name :session-id)
    ("tool/delta" :tool-id :session-id)
    ("tool/update" :tool-id :tool-name :content :result-text :is-error :session-id)
    ("tool/result" :tool-id :tool-name :content :result-text :is-error :session-id)
    ("ui/dialog-requested" :dialog-id :kind :title)
    ("ui/frontend-action-requested" :request-id :ui/action)
    ("ui/notification" :id :message :level)
    ("footer/updated" :path-line :stats-line :session-id)
    ("command-result" :type)
    ("error" :error-code :error-message))
  "The topics that are subscribed to, with the keys that each must have.")

(defconst driver-envelopes
  '((:response (:id :kind :op :ok) :data)
    (:error (:kind :error-code :error-message) :id :op :retryable :data)
    (:event (:kind :event :data) :id :seq :ts))
  "For each kind of frame the keys that it must have, and those that it may have.")

(defvar driver-backend nil)
(defvar driver-rest "" "What was read of a line that is not whole yet.")
(defvar driver-lines nil "Lines that nobody has looked at, the oldest first.")
(defvar driver-seq 0)
(defvar driver-requests 0)

(defun driver-start ()
  (let ((errors (generate-new-buffer "errors")))
    (setq driver-backend
          (make-process :name "backend" :command driver-command :connection-type 'pipe :noquery t
                        :coding 'utf-8-unix :filter #'driver-heard :sentinel #'ignore :stderr errors))
    (set-process-sentinel (get-buffer-process errors) #'ignore)))

(defun driver-heard (_process text)
  (let ((lines (split-string (concat driver-rest text) "\n")))
    (setq driver-rest (car (last lines))
          driver-lines (append driver-lines (butlast lines)))))

(defun driver-next ()
  "The next frame, checked and printed."
  (with-timeout (driver-patience (error "Nothing came"))
    (while (null driver-lines)
      (unless (or (accept-process-output driver-backend 1) (process-live-p driver-backend))
        (error "The backend has ended: %s" (with-current-buffer "errors" (buffer-string))))))
  (let* ((line (pop driver-lines)) (frame (driver-read line)))
    (driver-check frame line)
    (driver-print frame)
    frame))

(defun driver-check (frame line)
  (let* ((envelope (cdr (assq (driver-get frame :kind) driver-envelopes))) (keys (hash-table-keys frame)))
    (unless envelope (error "Unknown kind: %s" line))
    (when (seq-difference (car envelope) keys) (error "Lacks a key: %s" line))
    (when (seq-difference keys (append (car envelope) (cdr envelope))) (error "Has another key: %s" line)))
  (when (eq (driver-get frame :kind) :event)
    (let ((required (assoc (driver-get frame :event) driver-topics)))
      (unless required (error "Nobody subscribed to this: %s" line))
      (when (seq-difference (cdr required) (hash-table-keys (driver-get frame :data)))
        (error "Event lacks a key: %s" line)))
    (unless (eql (driver-get frame :seq) (setq driver-seq (1+ driver-seq)))
      (error "Number %d is missing: %s" driver-seq line))
    (unless (stringp (driver-get frame :ts)) (error "Event without a time: %s" line))))

(defun driver-print (frame)
  (let ((data (driver-get frame :data)))
    (pcase (driver-get frame :kind)
      (:response (driver-say "response %s %s" (driver-get frame :id) (driver-get frame :op)))
      (:error (driver-say "error %s %s" (driver-get frame :op) (driver-get frame :error-message)))
      (:event
       (pcase (driver-get frame :event)
         ((or "tool/update" "footer/updated" "context/updated"))  ; as many as it takes
         (topic
          (let ((shown (mapcar (lambda (key) (driver-get data key))
                               '(:phase :tool-name :title :type :text :result-text :message))))
            (driver-say "event %s %S" topic (seq-filter #'stringp shown)))))))))

(defun driver-say (format &rest values)
  "Print a line at once, which `princ' does not."
  (let ((print-escape-newlines t))
    (send-string-to-terminal (encode-coding-string (concat (apply #'format format values) "\n") 'utf-8))))

(defun driver-send (op params)
  "Send a request; gives its id."
  (let ((id (format "req-%d" (setq driver-requests (1+ driver-requests)))))
    (process-send-string
     driver-backend (concat (driver-write (list :id id :kind :request :op op :params params)) "\n"))
    id))

(defun driver-until (holds)
  "The next frame for which HOLDS."
  (let ((frame (driver-next)))
    (while (not (funcall holds frame))
      (setq frame (driver-next)))
    frame))

(defun driver-ask (op &rest params)
  "The data of the response to a request."
  (driver-answer (driver-send op params) op))

(defun driver-answer (id op)
  "The data of the response to the request of that ID, which was an OP."
  (let ((frame (driver-until (lambda (frame) (and (equal (driver-get frame :id) id)
                                                  (not (eq (driver-get frame :kind) :event)))))))
    (unless (and (eq (driver-get frame :ok) t) (equal (driver-get frame :op) op))
      (error "%s was refused: %s" op (driver-get frame :error-message)))
    (driver-get frame :data)))

(defun driver-event (topic &rest wanted)
  "The data of the next event of TOPIC that has the values WANTED, given as keys and values."
  (driver-get
   (driver-until (lambda (frame)
                   (and (equal (driver-get frame :event) topic)
                        (seq-every-p (lambda (pair) (equal (driver-get frame :data (car pair)) (cadr pair)))
                                     (seq-partition wanted 2)))))
   :data))

(defun driver-begin (&rest session)
  "Do what psi's frontend does first; gives the id of the session."
  (driver-start)
  (let ((info '(:name "driver" :version "1" :protocol-version "1.0" :features [])))
    (unless (equal (driver-get (driver-ask "handshake" :client-info info) :server-info :protocol-version) "1.0")
      (error "Another protocol")))
  (let* ((topics (vconcat (mapcar #'car driver-topics)))
         (id (driver-send "subscribe" (append (list :topics topics) session)))
         (active (driver-get (driver-event "context/updated") :active-session-id)))
    (driver-answer id "subscribe")
    active))

;; --- talks -------------------------------------------------------------------------------------------------

(defun driver-talk ()
  "All that a person does with psi's frontend."
  (driver-begin)
  (driver-say "%d messages" (length (driver-get (driver-ask "get_messages") :messages)))
  (let ((result (driver-get (driver-ask "query_eql" :query (concat "[:psi.extension/command-names"
                                                                   " :psi.agent-session/prompt-templates]"))
                            :result)))
    (driver-say "completes %S %S" (driver-get result :psi.extension/command-names)
                (driver-get result :psi.agent-session/prompt-templates)))
  (driver-say "- a prompt")
  (driver-ask "prompt" :message "read notes.txt")
  (driver-event "assistant/message" :stop-reason :stop)
  (driver-event "session/updated" :phase "idle")
  (driver-say "- a choice")
  (driver-send "command" '(:text "/model"))
  (let* ((asked (driver-event "ui/frontend-action-requested"))
         (items (driver-get asked :ui/action :ui/items))
         (item (seq-find (lambda (item) (equal (driver-get item :ui.item/id) "offline/guide")) items)))
    (driver-say "%s %s" (driver-get asked :ui/action :ui/action-kind) (driver-get item :ui.item/label))
    (driver-ask "frontend_action_result" :request-id (driver-get asked :request-id)
                :action-name (driver-get asked :ui/action :ui/action-name) :status "submitted"
                :value (driver-get item :ui.item/value)))
  (driver-say "- a dialog")
  (driver-ask "prompt" :message "run: echo hi")
  (driver-ask "resolve_dialog" :dialog-id (driver-get (driver-event "ui/dialog-requested") :dialog-id) :result t)
  (driver-event "session/updated" :phase "idle")
  (driver-say "%d messages" (length (driver-get (driver-ask "get_messages") :messages)))
  (driver-say "- the end")
  (driver-ask "command" :text "/quit")
  (process-send-eof driver-backend)
  (with-timeout (driver-patience (error "The backend does not end"))
    (while (process-live-p driver-backend)
      (accept-process-output driver-backend 0.05)))
  (driver-say "exit %d%s" (process-exit-status driver-backend)
              (with-current-buffer "errors" (buffer-string))))

(defun driver-begin-and-wait (command)
  "Begin a turn that runs COMMAND, and wait until somebody ends us."
  (driver-say "session %s" (driver-begin))
  (driver-ask "prompt" :message (concat "run: " command))
  (driver-ask "resolve_dialog" :dialog-id (driver-get (driver-event "ui/dialog-requested") :dialog-id) :result t)
  (driver-event "tool/executing")
  (driver-say "runs")
  (while t (sleep-for 1)))

(defun driver-come-back (session)
  "Go on with SESSION, whose turn still runs."
  (driver-begin :session-id session)
  (driver-say "comes back to %s" (driver-get (driver-ask "get_state") :state :phase))
  (driver-event "session/updated" :phase "idle")
  (driver-say "%S" (driver-get (driver-ask "get_last_assistant_text") :text)))

;;; driver.el ends here
