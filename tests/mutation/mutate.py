"""Small faults put into a module's syntax tree, one at a time.

Comparisons, arithmetic, constants, truth values, conditions, returns and statements. Left alone:
what only people read (docstrings, annotations, the texts and numbers of raised errors).
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.MatMult: ast.Mult,
}


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        place: the function or class it is in, dotted; ``<module>`` outside of any.
        first: the first line of its statement.
        last: the last line of its statement's head.
        change: what was changed into what, in words that survive moved lines.
        number: tells apart the same change in one place.
        source: the whole module with the fault.
    """

    place: str
    first: int
    last: int
    change: str
    number: int
    source: str

    @property
    def name(self) -> str:
        """Its name within the module."""
        twice = f" ({self.number + 1})" if self.number else ""
        return f"{self.place}: {self.change}{twice}"


def mutants(source: str) -> list[Mutant]:
    """All faults of a module, in the order of its lines."""
    tree = ast.parse(source)
    places = list(_places(tree, "<module>"))
    found: list[Mutant] = []
    seen: dict[tuple[str, str], int] = {}
    for place, statement, node in places:
        for change, replacement in _changes(node):
            mutated = _replaced(tree, node, replacement)
            key = (place, change)
            seen[key] = seen.get(key, -1) + 1
            found.append(
                Mutant(
                    place=place,
                    first=statement.lineno,
                    last=_head_end(statement),
                    change=change,
                    number=seen[key],
                    source=ast.unparse(mutated),
                )
            )
    return found


def _head_end(statement: ast.stmt) -> int:
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body:
        return max(statement.lineno, body[0].lineno - 1)
    return statement.end_lineno or statement.lineno


def _places(node: ast.AST, place: str) -> Iterator[tuple[str, ast.stmt, ast.AST]]:
    """Every node that may change, with its place and statement."""
    body: list[ast.stmt] = list(getattr(node, "body", []))
    for name in ("orelse", "finalbody"):
        body += getattr(node, name, [])
    for handler in getattr(node, "handlers", []):
        yield from _places(handler, place)
    for case in getattr(node, "cases", []):
        yield from _places(case, place)
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            inner = statement.name if place == "<module>" else f"{place}.{statement.name}"
            if _is_protocol(statement):
                continue
            yield from _places(statement, inner)
            if isinstance(statement, ast.FunctionDef):
                for default in (*statement.args.defaults, *statement.args.kw_defaults):
                    if default is not None:
                        yield from ((inner, statement, part) for part in _parts(default))
            continue
        if _for_people(statement):
            continue
        yield place, statement, statement
        for child in _own_expressions(statement):
            yield from ((place, statement, part) for part in _parts(child))
        yield from _places(statement, place)


def _is_protocol(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ClassDef) and any(
        "Protocol" in ast.unparse(part) for part in statement.bases
    )


def _for_people(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.If):
        return ast.unparse(statement.test) == "TYPE_CHECKING"
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        return isinstance(target, ast.Name) and (
            target.id in ("__slots__", "__all__")
            or (isinstance(statement, ast.AnnAssign) and "TypeAlias" in ast.unparse(statement))
        )
    return isinstance(statement, ast.Import | ast.ImportFrom | ast.Global | ast.Pass | ast.Assert)


def _own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement, not those of statements within it, nor annotations."""
    if isinstance(statement, ast.Raise):
        return
    for name, value in ast.iter_fields(statement):
        if name in ("annotation", "body", "orelse", "finalbody", "handlers", "cases"):
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                yield item


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.JoinedStr):
        return
    yield node
    if isinstance(node, ast.Subscript) and _is_type(node):
        return
    for child in ast.iter_child_nodes(node):
        yield from _parts(child)


def _is_type(node: ast.Subscript) -> bool:
    """Whether a subscript is a generic class, such as ``Release[Model]``."""
    name = ast.unparse(node.value).rpartition(".")[2]
    return name[:1].isupper() and not name.isupper()


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    old = ast.unparse(node) if isinstance(node, ast.expr | ast.stmt) else ""
    for replacement in _replacements(node):
        new = ast.unparse(replacement)
        if new != old:
            yield f"{_short(old)} -> {_short(new)}", replacement


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 90 else f"{line[:60]} ... {line[-25:]}"


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=ops):
            for place, operation in enumerate(ops):
                for other in _COMPARISONS[type(operation)]:
                    made = copy.deepcopy(node)
                    made.ops[place] = other()
                    yield made
        case ast.BinOp(op=operation):
            made = copy.deepcopy(node)
            made.op = _ARITHMETIC[type(operation)]()
            yield made
        case ast.AugAssign(op=operation):
            made = copy.deepcopy(node)
            made.op = _ARITHMETIC[type(operation)]()
            yield made
        case ast.BoolOp(op=operation):
            made = copy.deepcopy(node)
            made.op = ast.Or() if isinstance(operation, ast.And) else ast.And()
            yield made
        case ast.UnaryOp():
            yield node.operand
        case ast.Constant():
            yield from _other_constants(node.value)
        case ast.IfExp() | ast.If() | ast.While():
            made = copy.deepcopy(node)
            made.test = ast.UnaryOp(op=ast.Not(), operand=made.test)
            yield made
        case ast.Return(value=ast.expr() as value):
            if not (isinstance(value, ast.Constant) and value.value is None):
                yield ast.Return(value=ast.Constant(value=None))
        case ast.Raise() | ast.Break() | ast.Continue():
            yield ast.Pass()
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case _:
            return


def _other_constants(value: object) -> Iterator[ast.AST]:
    if isinstance(value, bool):
        yield ast.Constant(value=not value)
    elif isinstance(value, int):
        yield ast.Constant(value=value + 1)
        if value == 1:
            yield ast.Constant(value=0)
    elif isinstance(value, float):
        yield ast.Constant(value=2.0 * value if value else 1.0)
    elif isinstance(value, str | bytes) and value:
        yield ast.Constant(value=value + value[:1])


class _Swap(ast.NodeTransformer):
    def __init__(self, target: ast.AST, replacement: ast.AST) -> None:
        self._target, self._replacement = target, replacement

    def visit(self, node: ast.AST) -> ast.AST:
        """Put the replacement where the target is."""
        return self._replacement if node is self._target else super().generic_visit(node)


def _replaced(tree: ast.Module, node: ast.AST, replacement: ast.AST) -> ast.Module:
    # Copied with a memo, so that the node's copy is known.
    memo: dict[int, object] = {}
    copied = copy.deepcopy(tree, memo)
    target = memo[id(node)]
    assert isinstance(target, ast.AST)
    return ast.fix_missing_locations(_Swap(target, replacement).visit(copied))
