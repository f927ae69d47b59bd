"""CEL expressions as Kubernetes has them: parsed, type-checked, with an estimate of their cost, and evaluated within a
budget.

`program.Environment` compiles an expression and complains in cel-go's words (`syntax.BadExpression`); `Program.run`
evaluates it, counts what that costs into a `budget.Budget` and raises what is in `values`. Few clusters have
expressions: import `program` only where it is used.
"""
