/** A function on the stack, and where in its text it is: enough to know the same call again. */
export interface CallFrame {
  readonly name: string;
  readonly isConstructor: boolean;
  readonly script: string;
  readonly position: number;
}

/** A frame as V8 hands it to prepareStackTrace. */
interface V8Frame {
  isConstructor(): boolean;
  getFunctionName(): string | null;
  getScriptNameOrSourceURL(): string | null;
  getPosition(): number;
}

/** Few frames stand between a constructor and those that it calls; each takes a tenth of a microsecond. */
const mostFrames = 24;

const asFrames = (_: unknown, frames: unknown): unknown => frames;

type AnyConstructor = abstract new (...inputs: never[]) => object;

/**
 * What is running, innermost first, from the caller of the constructor `inside` on. Empty where that is
 * not running, and where the engine is not V8 or has frozen `Error`: what needs frames does without.
 * Takes some 5 µs.
 */
export function callFrames(inside?: AnyConstructor): readonly CallFrame[] {
  // oxlint-disable-next-line typescript/unbound-method -- it is put back as it was
  const { prepareStackTrace, stackTraceLimit } = Error;
  const holder: { stack?: unknown } = {};
  try {
    Error.prepareStackTrace = asFrames;
    Error.stackTraceLimit = mostFrames;
    Error.captureStackTrace(holder, inside);
    const { stack } = holder;
    return Array.isArray(stack) ? stack.map((frame: V8Frame) => new LazyFrame(frame)) : [];
  } catch {
    return [];
  } finally {
    if (prepareStackTrace === undefined) Reflect.deleteProperty(Error, 'prepareStackTrace');
    else Reflect.set(Error, 'prepareStackTrace', prepareStackTrace);
    Reflect.set(Error, 'stackTraceLimit', stackTraceLimit);
  }
}

/** Asks V8 only for what is read. It holds on to what the function was called with, as V8's frame does. */
class LazyFrame implements CallFrame {
  readonly #frame: V8Frame;

  constructor(frame: V8Frame) {
    this.#frame = frame;
  }

  get name(): string {
    return this.#frame.getFunctionName() ?? '';
  }

  get isConstructor(): boolean {
    return this.#frame.isConstructor();
  }

  get script(): string {
    return this.#frame.getScriptNameOrSourceURL() ?? '';
  }

  get position(): number {
    return this.#frame.getPosition();
  }
}

/** A copy that holds on to nothing. */
export function copyOf({ name, isConstructor, script, position }: CallFrame): CallFrame {
  return { name, isConstructor, script, position };
}
