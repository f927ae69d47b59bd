"""CEL expressions as in Kubernetes: parsed, type-checked, with an estimate of their cost, and evaluated within a
budget.

`program.Environment` compiles an expression and reports errors in cel-go's wording (`syntax.BadExpression`);
`Program.run` evaluates it, charges its cost to a `budget.Budget` and raises the exceptions in `values`. Few clusters
have expressions: import `program` only where it is used.
"""
