import { type CapturedStack, captureStack, userLine } from '../base/stack.ts';

/**
 * The operation that user code called, and the line of the call. Capturing one costs 5 to 10 µs, so only nodes whose
 * failure is found in a run, far from that line, have one. The text of the line is made when it is asked for.
 */
export class CallSite {
  /** The name that users know, for example `crossEntropy`, and not the `gather` inside it. */
  readonly operation: string;
  readonly #stack: CapturedStack;

  /** Takes the stack of the code that calls this constructor, or that of an earlier call if `stack` has it. */
  constructor(operation: string, stack?: CapturedStack) {
    this.operation = operation;
    this.#stack = captureStack(stack);
  }

  /** The line of user code, as `path:line:column`. Null if it is not known. */
  get line(): string | null {
    return userLine(this.#stack.stack ?? '');
  }
}

/** The line of user code, as ` at path:line:column`. Empty if it is not known. */
export function placeOf(site: CallSite | null): string {
  const line = site?.line ?? null;
  return line === null ? '' : ` at ${line}`;
}
