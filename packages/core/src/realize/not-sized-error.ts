/** A program cannot be planned for several sizes: it takes a plan for each. */
export class NotSizedError extends Error {}
