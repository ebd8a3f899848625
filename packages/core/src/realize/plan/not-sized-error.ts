/** A program cannot be planned for several sizes. It needs a plan for each size. */
export class NotSizedError extends Error {}
