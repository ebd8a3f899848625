import { type CapturedStack, captureStack, userLine } from '../spec/stack.ts';

/** Our own frames stand between the user's line and the capture, most of all for modules in modules. */
const MAX_FRAMES = 40;

/**
 * Which operation user code called, and where. Taking one costs 5 to 10 µs, so only nodes have one whose
 * failure is found in a run, far from that line; the text is made when it is asked for.
 */
export class CallSite {
  /** The name that users know: `crossEntropy`, and not the `gather` inside. */
  readonly operation: string;
  readonly #stack: CapturedStack;

  /** Takes the stack of the code that calls this constructor. */
  constructor(operation: string) {
    this.operation = operation;
    this.#stack = captureStack(MAX_FRAMES);
  }

  /** The line of user code, as `path:line:column`; null where it is not known. */
  get line(): string | null {
    return userLine(this.#stack.stack ?? '');
  }
}

/** The line of user code, as ` at path:line:column`; empty where it is not known. */
export function placeOf(site: CallSite | null): string {
  const line = site?.line ?? null;
  return line === null ? '' : ` at ${line}`;
}
