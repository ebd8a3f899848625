import { elementCount, type ParameterPlan, type Plan } from '@shardwise/core/extend';
import { partsOf } from './local-bytes.ts';

/** The bytes of one element of a parameter, if it is not sharded. */
export interface ElementBytes {
  readonly parameter: number;
  readonly gradient: number;
  readonly optimizer: number;
}

/**
 * The bytes of a rank's states for the parameters that train, in the notation of Rajbhandari et al. 2020
 * ("ZeRO", section 3).
 */
export interface StatesFormula {
  /** The formula as text, such as `4Ψ + 12Ψ/N`. */
  readonly text: string;
  /** Ψ: the number of elements of the parameters that train. */
  readonly elements: number;
  /** N: the number of parts into which states are divided. */
  readonly parts: number;
  /** Bytes of an element that every rank keeps. */
  readonly wholeBytes: number;
  /** Bytes of an element that the ranks divide. */
  readonly sharedBytes: number;
  /** The bytes that the formula gives. */
  readonly bytes: number;
}

/** Returns null if parameters are divided in different ways, or have different dtypes. */
export function statesFormula(
  { parameters, axes }: Plan,
  elementBytes: (parameter: ParameterPlan) => ElementBytes,
): StatesFormula | null {
  const trained = parameters.filter(({ requiresGrad }) => requiresGrad);
  const alike = new Map<string, { whole: number; shared: number; parts: number }>();
  for (const parameter of trained) {
    const element = elementBytes(parameter);
    const sums = { whole: 0, shared: 0, parts: 1 };
    for (const state of ['parameter', 'gradient', 'optimizer'] as const) {
      const parts = partsOf(parameter[state], axes);
      if (parts > 1 && sums.parts > 1 && parts !== sums.parts) return null;
      if (parts > 1) sums.shared += element[state];
      else sums.whole += element[state];
      sums.parts = Math.max(sums.parts, parts);
    }
    alike.set(JSON.stringify(sums), sums);
  }
  const [sums] = alike.values();
  if (sums === undefined || alike.size > 1) return null;
  const elements = trained.reduce((sum, { shape }) => sum + elementCount(shape), 0);
  const { whole, shared, parts } = sums;
  return {
    text: [...term(whole, 'Ψ'), ...term(shared, 'Ψ/N')].join(' + ') || '0',
    elements,
    parts,
    wholeBytes: whole,
    sharedBytes: shared,
    bytes: (whole + shared / parts) * elements,
  };
}

function term(bytes: number, of: string): string[] {
  return bytes === 0 ? [] : [`${bytes}${of}`];
}
