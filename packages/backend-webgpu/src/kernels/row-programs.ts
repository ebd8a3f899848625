import type { CompositeOp } from '@shardwise/core/spec';
import type { Emitter } from '../emit/emitter.ts';

export type RowOp = Extract<
  CompositeOp,
  | 'softmax'
  | 'softmaxGrad'
  | 'logSoftmax'
  | 'logSoftmaxGrad'
  | 'layerNorm'
  | 'layerNormInputGrad'
  | 'rmsNorm'
  | 'rmsNormInputGrad'
>;

/** Writes an expression for the element of a row in a column. */
type RowElement = (inner: Emitter, column: string) => string;

/** What a row program writes its text with. */
interface RowScope {
  readonly emitter: Emitter;
  /** The number of elements of a row. */
  readonly width: number;
  /** The eps of a norm. 0 for other ops. */
  readonly eps: number;
  /** The element of an input, from the same row, or from the one row that all rows share. */
  readonly input: (at: number, inner: Emitter, column: string) => string;
  /** The sum or the maximum of a term over a row. */
  readonly fold: (kind: 'sum' | 'max', term: RowElement) => string;
}

type RowProgram = (scope: RowScope) => RowElement;

/** What each op makes of a row. The formulas are those of core's decompositions. */
export const rowPrograms: Readonly<Record<RowOp, RowProgram>> = {
  softmax: ({ input, fold }) => {
    const { exponential, sum } = exponentials({ input, fold });
    return (inner, column) => `quotient_of(${exponential(inner, column)}, ${sum})`;
  },
  logSoftmax: ({ emitter, input, fold }) => {
    const { largest, sum } = exponentials({ input, fold });
    const log = emitter.let(`log_of(${sum})`);
    return (inner, column) => `(${input(0, inner, column)} - ${largest}) - ${log}`;
  },
  softmaxGrad: ({ input, fold }) => {
    const sum = fold('sum', (inner, column) =>
      inner.let(`${input(0, inner, column)} * ${input(1, inner, column)}`),
    );
    return (inner, column) => `${input(0, inner, column)} * (${input(1, inner, column)} - ${sum})`;
  },
  logSoftmaxGrad: ({ input, fold }) => {
    const sum = fold('sum', (inner, column) => input(1, inner, column));
    return (inner, column) =>
      `${input(1, inner, column)} - exp_of(${input(0, inner, column)}) * ${sum}`;
  },
  layerNorm: (scope) => {
    const normal = standardized(scope);
    return (inner, column) =>
      `${normal.element(inner, column)} * ${scope.input(1, inner, column)} + ${scope.input(2, inner, column)}`;
  },
  layerNormInputGrad: (scope) => normGradient(scope, standardized(scope), true),
  rmsNorm: (scope) => {
    const normal = rootMeanSquared(scope);
    return (inner, column) => `${normal.element(inner, column)} * ${scope.input(1, inner, column)}`;
  },
  rmsNormInputGrad: (scope) => normGradient(scope, rootMeanSquared(scope), false),
};

/** The exponentials of input 0 minus its largest element, and their sum. */
function exponentials({ input, fold }: Pick<RowScope, 'input' | 'fold'>): {
  readonly largest: string;
  readonly exponential: RowElement;
  readonly sum: string;
} {
  const largest = fold('max', (inner, column) => input(0, inner, column));
  const exponential: RowElement = (inner, column) =>
    inner.let(`exp_of(${input(0, inner, column)} - ${largest})`);
  return { largest, exponential, sum: fold('sum', exponential) };
}

/** The mean of a row of this width, from its sum. */
const meanOf = (sum: string, width: number): string => `quotient_of(${sum}, ${width}f)`;

interface Normalised {
  readonly element: RowElement;
  /** The factor by which the elements were multiplied. */
  readonly inverse: string;
}

/** Input 0, scaled to mean 0 and variance 1. */
function standardized({ emitter, width, eps, input, fold }: RowScope): Normalised {
  const sum = fold('sum', (inner, column) => input(0, inner, column));
  const mean = emitter.let(meanOf(sum, width));
  const centred: RowElement = (inner, column) => inner.let(`${input(0, inner, column)} - ${mean}`);
  const squares = fold('sum', (inner, column) => {
    const difference = centred(inner, column);
    return inner.let(`${difference} * ${difference}`);
  });
  const inverse = inverseRoot(emitter, squares, width, eps);
  return {
    inverse,
    element: (inner, column) => inner.let(`${centred(inner, column)} * ${inverse}`),
  };
}

/** Input 0, scaled to mean square 1. */
function rootMeanSquared({ emitter, width, eps, input, fold }: RowScope): Normalised {
  const squares = fold('sum', (inner, column) => {
    const x = input(0, inner, column);
    return inner.let(`${x} * ${x}`);
  });
  const inverse = inverseRoot(emitter, squares, width, eps);
  return {
    inverse,
    element: (inner, column) => inner.let(`${input(0, inner, column)} * ${inverse}`),
  };
}

function inverseRoot(emitter: Emitter, squares: string, width: number, eps: number): string {
  return emitter.let(`inverse_root_of(${meanOf(squares, width)} + ${Math.fround(eps)}f)`);
}

/** The gradient of a norm's input. Its inputs are x, weight, dy. */
function normGradient(
  { emitter, width, input, fold }: RowScope,
  { element, inverse }: Normalised,
  subtractMean: boolean,
): RowElement {
  const weighted: RowElement = (inner, column) =>
    inner.let(`${input(2, inner, column)} * ${input(1, inner, column)}`);
  const projected = fold('sum', (inner, column) =>
    inner.let(`${weighted(inner, column)} * ${element(inner, column)}`),
  );
  const projection = emitter.let(meanOf(projected, width));
  const mean = subtractMean ? emitter.let(meanOf(fold('sum', weighted), width)) : '0.0';
  return (inner, column) =>
    `${inverse} * ((${weighted(inner, column)} - ${element(inner, column)} * ${projection}) - ${mean})`;
}
