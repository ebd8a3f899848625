import { type CallFrame, copyOf } from './call-frames.ts';

type AnyConstructor = abstract new (...inputs: never[]) => object;

/** The number of frames around a constructor that are compared to tell one call of it from another. */
const TELLING_FRAMES = 4;

/** One call of a constructor, identified by frames of the stack. */
export interface ConstructorCall {
  /** The frame of the constructor of the class that is constructed. */
  readonly constructorFrame: CallFrame;
  /** The frames that the constructor was called from. They stay the same as long as it runs. */
  readonly callers: readonly CallFrame[];
}

/**
 * Splits the stack while the constructor of `base` runs for an object of class `type`: into the call of that class's
 * constructor, and the frames around it. Classes without a constructor of their own have no frame. `call` is undefined
 * if no class between `base` and `type` has a constructor.
 */
export function constructorCall(
  frames: readonly CallFrame[],
  base: AnyConstructor,
  type: AnyConstructor,
): { readonly call: ConstructorCall | undefined; readonly around: readonly CallFrame[] } {
  const subclasses = subclassesBetween(base, type);
  let own = 0;
  for (const { name } of subclasses) {
    const frame = frames[own];
    if (frame?.isConstructor === true && frame.name === name) own++;
  }
  const around = frames.slice(own);
  const constructorFrame = frames[own - 1];
  if (constructorFrame === undefined) return { call: undefined, around };
  const callers = around.slice(0, TELLING_FRAMES).map(copyOf);
  return { call: { constructorFrame: copyOf(constructorFrame), callers }, around };
}

/** Whether a call is among `frames`, at any depth. */
export function isRunning(
  { constructorFrame, callers }: ConstructorCall,
  frames: readonly CallFrame[],
): boolean {
  return frames.some(
    (frame, index) =>
      frame.isConstructor &&
      isSameFunction(frame, constructorFrame) &&
      callers.every((caller, out) => isSamePlace(caller, frames[index + 1 + out])),
  );
}

/** Whether two calls of the same constructor come from the same place, as in a loop. */
export function isSameCall(a: ConstructorCall, b: ConstructorCall): boolean {
  return (
    isSameFunction(a.constructorFrame, b.constructorFrame) &&
    a.callers.length === b.callers.length &&
    a.callers.every((caller, index) => isSamePlace(caller, b.callers[index]))
  );
}

/** The classes between `base` and `type`, including `type`. The nearest to `base` comes first. */
function subclassesBetween(base: AnyConstructor, type: AnyConstructor): readonly AnyConstructor[] {
  const classes: AnyConstructor[] = [];
  let next: unknown = type;
  while (isConstructor(next) && next !== base) {
    classes.unshift(next);
    next = Object.getPrototypeOf(next);
  }
  return classes;
}

const known = new WeakMap<AnyConstructor, boolean>();

/** Whether a class, or one between it and `base`, has private fields. */
export function hasPrivateNames(base: AnyConstructor, type: AnyConstructor): boolean {
  const before = known.get(type);
  if (before !== undefined) return before;
  // The pattern matches `#name`, and the names that compilers for older engines use instead.
  const pattern = /#[A-Za-z_$]|__classPrivate|__private/;
  const has = subclassesBetween(base, type).some((each) =>
    pattern.test(Function.prototype.toString.call(each)),
  );
  known.set(type, has);
  return has;
}

function isConstructor(value: unknown): value is AnyConstructor {
  return typeof value === 'function';
}

function isSameFunction(a: CallFrame, b: CallFrame): boolean {
  return a.name === b.name && a.script === b.script;
}

function isSamePlace(a: CallFrame, b: CallFrame | undefined): boolean {
  return b !== undefined && a.position === b.position && isSameFunction(a, b);
}
