/** A command line that asks for what is not there; its message says all. */
export class UsageError extends Error {
  override readonly name = 'UsageError';

  constructor(found: string, todo: string) {
    super(`Reading the command line: ${found}. ${todo}`);
  }
}
