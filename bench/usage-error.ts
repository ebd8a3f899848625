/** The command line is wrong. The message says everything, so no stack is shown. */
export class UsageError extends Error {
  override readonly name = 'UsageError';

  constructor(found: string, todo: string) {
    super(`Reading the command line: ${found}. ${todo}`);
  }
}
