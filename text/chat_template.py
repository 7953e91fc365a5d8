"""Writes chats with a model's chat template, as transformers' apply_chat_template() does.

Reads lines of JSON:
- {"template", "special_tokens"} comes first.
- {"spellings", "are_letters"} of control tokens comes second.
- {"record", "learned", "answer"} is a chat. `learned` has the numbers of the messages to learn. If
  `answer` is not null, everything from the message of this number on is learned instead.
- {"record", "goes_on"} is a chat that the model is to continue.

Prints a line for each chat:
- {"parts": [text, is_learned, [byte, ...], ...], "unheeded": [name, ...],
  "control": {spelling: times}, "endless": count}. `endless` counts answers that are learned without
  their end. The bytes are places where a message spells a control token, if these become letters.
- {"text": text, "end": text after an answer, "unheeded": ...} for a chat to be continued.
- {"error": reason} if the template fails.
"""
import sys

sys.path = [path for path in sys.path if path]  # without the working directory
import json
import re
from datetime import datetime

try:
    import jinja2
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    sys.exit(3)

# transformers looks for a model's thoughts under these names, and passes them to templates.
REASONING = ("reasoning_content", "thinking", "reasoning")
# Fields of a message that accrue itself uses.
KNOWN = {"role", "content", "weight", "train"}


class Marks(jinja2.ext.Extension):
    """{% generation %}: remembers the text within it, which the model generates."""

    tags = {"generation"}
    found = None

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller):
        text = caller()
        blocks, spans = Marks.found
        begin = len("".join(blocks))
        spans.append((begin, begin + len(text)))
        return text


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


class Dict:
    """The function dict() without the attributes of the type dict."""

    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args, **kwargs):
        return dict.fromkeys(*args, **kwargs)


class Namespace(jinja2.utils.Namespace):
    """A namespace without names that begin with _."""

    def __init__(*args, **kwargs):
        self, *args = args
        attributes = dict(*args, **kwargs)
        for name in attributes:
            Namespace._check_name(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        Namespace._check_name(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check_name(name):
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace cannot have {name!r}")


def compiled(template):
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Marks, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    env.globals["dict"] = Dict()
    env.globals["namespace"] = Namespace
    return env.from_string(template)


class Control:
    """Finds spellings of control tokens in messages. If they are to become letters, each is marked
    after its first character, with a character that no message has. The mark is then found in the
    text that a template writes."""

    def __init__(self, said):
        spellings = sorted(said["spellings"], key=len, reverse=True)
        self.search = re.compile("|".join(map(re.escape, spellings))) if spellings else None
        self.are_letters = said["are_letters"]

    def look(self, record):
        """The record with marks, the mark, and how often each spelling occurs."""
        times, mark = {}, None
        if not self.search:
            return record, mark, times
        if self.are_letters:
            text = json.dumps(record, ensure_ascii=False)
            mark = next(chr(code) for code in range(0xe000, 0xf900) if chr(code) not in text)

        def found(match):
            times[match[0]] = times.get(match[0], 0) + 1
            return match[0][0] + mark + match[0][1:] if mark else match[0]

        def look(value):
            if isinstance(value, str):
                return self.search.sub(found, value)
            if isinstance(value, list):
                return [look(each) for each in value]
            if isinstance(value, dict):
                return {k: v if k == "role" else look(v) for k, v in value.items()}
            return value

        said = ("messages", "tools", "documents")
        return {k: look(v) if k in said else v for k, v in record.items()}, mark, times


def unmarked(text, mark):
    """The text without marks, and the byte offsets where the marked spellings begin."""
    pieces = text.split(mark) if mark else [text]
    begins, size = [], 0
    for piece in pieces[:-1]:
        size += len(piece.encode())
        begins.append(size - len(piece[-1:].encode()))
    return "".join(pieces), begins


class Writer:
    def __init__(self, head, control):
        self.control = Control(control)
        named = head["template"]
        if isinstance(named, str):
            named = [{"name": "default", "template": named}]
        self.texts = {each["name"]: each["template"] for each in named}
        self.made = {}
        self.special = head["special_tokens"]

    def template(self, record):
        has_tools = record.get("tools") is not None
        name = "tool_use" if has_tools and "tool_use" in self.texts else "default"
        if name not in self.texts:
            raise ValueError("there is no template of the name 'default'")
        if name not in self.made:
            self.made[name] = compiled(self.texts[name])
        return name, self.made[name]

    def render(self, record, messages, prompt=False):
        """The text, and the spans that the template marks."""
        tools = record.get("tools")
        if isinstance(tools, str):
            tools = json.loads(tools)
        documents = record.get("documents")
        for name, values in ("tools", tools), ("documents", documents):
            if values is not None and not all(isinstance(value, dict) for value in values):
                raise ValueError(f"{name} are to be a list of objects")
        written = []
        for message in messages:
            message = {key: value for key, value in message.items() if value is not None}
            thought = next((message[key] for key in REASONING if key in message), None)
            if thought is not None:
                message = {"thinking": thought, **message, "reasoning_content": thought}
            written.append(message)
        blocks, spans = Marks.found = [], []
        for block in self.template(record)[1].generate(
                messages=written, tools=tools, documents=documents, add_generation_prompt=prompt,
                **{**self.special, **(record.get("chat_template_kwargs") or {})}):
            blocks.append(block)
        return "".join(blocks), spans

    def has_marks(self, record):
        return re.search(r"\{%-?\s*generation\s*-?%\}", self.texts[self.template(record)[0]])

    def spans(self, record, learned, text, marked):
        """The parts of the text to be learned: the parts that the template marks, or else the text
        that each answer adds to the text that the model was asked to continue."""
        messages = record["messages"]
        if self.has_marks(record):
            answers = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
            if len(marked) == len(answers):
                return [span for span, i in zip(marked, answers) if i in learned]
            if len(answers) == len(learned):
                return marked
            raise ValueError(f"the template marks {len(marked)} texts as generated, and there are "
                             f"{len(answers)} messages of the assistant, of which not all are to "
                             "be learned")
        return [self.span(record, i, text) for i in learned]

    def span(self, record, i, text):
        messages = record["messages"]
        try:
            before = self.render(record, messages[:i], prompt=True)[0]
        except Exception as error:
            raise ValueError(
                f"it cannot be told what is learned of message {i + 1}, because the template does "
                f"not write the beginning of an answer to the {i} before it: {error}")
        after = text if i + 1 == len(messages) else self.render(record, messages[:i + 1])[0]
        end = self.special.get("eos_token")
        if end and not text.startswith(after):  # Some templates end a whole chat with it.
            after = after.removesuffix(end)
        if not text.startswith(before):
            why = f"begins an answer after the {i} before it otherwise than it writes the answer"
        elif not after.startswith(before) or not text.startswith(after):
            why = "writes the messages up to it otherwise than it begins to write all of them"
        else:
            return len(before), len(after)
        raise ValueError(
            f"it cannot be told what is learned of message {i + 1}, because the template {why}, as "
            "those that add or drop thoughts do: expected its own thoughts in each answer, "
            "\"weight\": 0 in each answer but the last, or a chat_template.jinja that marks "
            "answers by {% generation %}")

    def endless(self, record, learned, text, spans):
        """How many learned answers end with their content: the model does not learn to stop."""
        count = 0
        for i, (begin, end) in zip(learned, spans) if len(learned) == len(spans) else ():
            message = record["messages"][i]
            content = message.get("content")
            if isinstance(content, list) and content and isinstance(content[-1], dict):
                content = content[-1].get("text")
            if isinstance(content, str) and content.strip() and not message.get("tool_calls"):
                count += text[begin:end].rstrip().endswith(content.strip())
        return count

    def answer_span(self, record, answer, text):
        """The part of the text that is the answer to the messages before it."""
        before = self.render(record, record["messages"][:answer], prompt=True)[0]
        if not text.startswith(before):
            raise ValueError("what the template writes of the prompt is not how it begins to write "
                             "the prompt and its answer, so that it cannot be told what is learned")
        return len(before), len(text)

    def unheeded(self, record, text):
        """Names of fields that do not change the text."""
        def differs(other):
            try:
                return self.render(other, other["messages"])[0] != text
            except Exception:
                return True

        result = []
        for name in ("tools", "documents", "chat_template_kwargs"):
            if record.get(name) and not differs({k: v for k, v in record.items() if k != name}):
                result.append(name)
        messages = record["messages"]
        names = {name: None for message in messages for name, value in message.items()
                 if name not in KNOWN and value not in (None, "", [], {})}
        for name in names:
            other = [{k: v for k, v in message.items() if k != name} for message in messages]
            if not differs({**record, "messages": other}):
                result.append(name + " of a message")
        return result

    def write(self, record, learned, answer):
        record, mark, times = self.control.look(record)
        text, marked = self.render(record, record["messages"])
        parts, at = [], 0
        if answer is None:
            spans = self.spans(record, learned, text, marked)
        else:
            spans = [self.answer_span(record, answer, text)]
        for begin, end in spans:
            parts += [(text[at:begin], False), (text[begin:end], True)]
            at = end
        parts.append((text[at:], False))
        flat = []
        for part, is_learned in parts:
            own, begins = unmarked(part, mark)
            flat += [own, is_learned, begins]
        return {"parts": flat, "unheeded": self.unheeded(record, text), "control": times,
                "endless": self.endless(record, learned, text, spans)}

    def begin_answer(self, record):
        """The chat with the beginning of an answer, and what the template writes after one."""
        mark = "accrue's answer"
        text = self.render(record, record["messages"], prompt=True)[0]
        try:
            whole = self.render(record, [*record["messages"],
                                         {"role": "assistant", "content": mark}])[0]
        except Exception:  # such as a template that wants messages in another order
            whole = ""
        return {"text": text, "end": whole.partition(mark)[2],
                "unheeded": self.unheeded(record, self.render(record, record["messages"])[0])}


def main():
    lines = (json.loads(line) for line in sys.stdin.buffer)
    writer = Writer(next(lines), next(lines))
    for line in lines:
        try:
            answer = (writer.begin_answer(line["record"]) if "goes_on" in line
                      else writer.write(line["record"], line["learned"], line["answer"]))
        except Exception as error:  # a template may raise anything
            answer = {"error": str(error) or type(error).__name__}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()


main()
