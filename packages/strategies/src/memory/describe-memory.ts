import type { PlanMemory } from './plan-memory.ts';
import type { StatesFormula } from './states-formula.ts';

/** Returns the rows of a table of the bytes that a rank keeps. */
export function memoryRows(memory: PlanMemory): readonly (readonly string[])[] {
  const { parameterBytes, gradientBytes, optimizerBytes, bufferBytes, activationBytes } = memory;
  const cell = (bytes: number | null): string => (bytes === null ? 'not known' : String(bytes));
  const sum = memory.statesBytes + (bufferBytes ?? 0) + (activationBytes ?? 0);
  return [
    ['per rank', 'bytes'],
    ['parameters', cell(parameterBytes)],
    ['gradients', cell(gradientBytes)],
    ['optimizer states', cell(optimizerBytes)],
    ['buffers', cell(bufferBytes)],
    ['activations', cell(activationBytes)],
    ['sum', cell(sum)],
  ];
}

/** Writes the formula on one line, with its numbers, and says which bytes it does not count. */
export function describeFormula(memory: PlanMemory): string {
  const { formula, statesBytes } = memory;
  if (formula === null) return `states: ${statesBytes} bytes; parameters are not cut alike`;
  const { text, elements, parts, bytes } = formula;
  const where = [`Ψ = ${elements} trained elements`, ...(parts > 1 ? [`N = ${parts}`] : [])];
  const rest = statesBytes - bytes;
  const others = rest === 0 ? '' : `; ${Number(rest.toFixed(2))} bytes are frozen or padding`;
  return `states: ${text} = ${numbersOf(formula)} = ${Number(bytes.toFixed(2))} bytes, ${where.join(', ')}${others}`;
}

function numbersOf({ wholeBytes, sharedBytes, elements, parts }: StatesFormula): string {
  const whole = wholeBytes === 0 ? [] : [`${wholeBytes} × ${elements}`];
  const shared = sharedBytes === 0 ? [] : [`${sharedBytes} × ${elements} / ${parts}`];
  return [...whole, ...shared].join(' + ') || '0';
}
