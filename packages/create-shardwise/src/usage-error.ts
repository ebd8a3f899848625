/** What the command was asked for and can't do; its message says all that there is to know. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
