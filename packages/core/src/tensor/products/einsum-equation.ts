import { formatShape } from '../../base/shape.ts';
import type { Shape } from '../../spec/dtype.ts';
import { ShapeError } from '../../spec/errors.ts';

/**
 * A parsed equation of einsum. Each dim has a label: a letter, or `.0`, `.1`, … for the dims under an ellipsis, which
 * are counted from the last one.
 */
export interface EinsumEquation {
  readonly operands: readonly (readonly string[])[];
  readonly output: readonly string[];
  /** The size of each label. If operands broadcast, it is the larger size. */
  readonly sizes: ReadonlyMap<string, number>;
}

/** Parses an equation. Throws ShapeError if it cannot be read or does not fit the shapes. */
export function parseEinsum(equation: string, shapes: readonly Shape[]): EinsumEquation {
  const fault = (found: string, todo: string): ShapeError =>
    new ShapeError(
      {
        asked: `einsum '${equation}' of shapes ${shapes.map(formatShape).join(', ')}`,
        found,
        todo,
      },
      { equation, shapes },
    );
  const [inputs = '', output, ...more] = equation.replaceAll(/\s/g, '').split('->');
  const terms = inputs.split(',');
  const isReadable = (term: string): boolean => /^[A-Za-z]*(\.\.\.)?[A-Za-z]*$/.test(term);
  if (more.length > 0 || ![...terms, output ?? ''].every(isReadable)) {
    throw fault(
      'text that is no equation',
      "Write a letter for each dim, as in 'bij,bjk->bik', and ... for others",
    );
  }
  if (terms.length !== shapes.length) {
    throw fault(
      `${terms.length} terms for ${shapes.length} tensors`,
      'Write a term for each tensor, with commas between them',
    );
  }
  const operands = terms.map((term, i) => labelsOf(term, shapes[i] ?? [], fault));
  const sizes = sizesOf(operands, shapes, fault);
  const ellipsis = [...sizes.keys()].filter((label) => label.startsWith('.'));
  const around = ellipsis.toSorted((a, b) => Number(b.slice(1)) - Number(a.slice(1)));
  if (output === undefined) return { operands, output: [...around, ...once(terms)], sizes };
  const letters = output.replace('...', '');
  const unknown = Array.from(letters).find((letter) => !sizes.has(letter));
  if (unknown !== undefined)
    throw fault(`'${unknown}' behind the arrow alone`, 'Use letters of the operands');
  if (new Set(letters).size < letters.length)
    throw fault('a letter twice behind the arrow', 'Write each once');
  if (!output.includes('...') && around.length > 0) {
    // As in PyTorch, dims under an ellipsis are summed if the result has no ellipsis.
    return { operands, output: Array.from(letters), sizes };
  }
  const [before = '', after = ''] = output.includes('...') ? output.split('...') : [output];
  return { operands, output: [...Array.from(before), ...around, ...Array.from(after)], sizes };
}

type Fault = (found: string, todo: string) => ShapeError;

function labelsOf(term: string, shape: Shape, fault: Fault): string[] {
  const named = term.replace('...', '').length;
  const rest = shape.length - named;
  if (rest < 0 || (rest > 0 && !term.includes('...'))) {
    throw fault(
      `'${term}' for ${shape.length} dims`,
      'Write a letter for each dim, or ... for several',
    );
  }
  const dots = Array.from({ length: rest }, (_, i) => `.${rest - 1 - i}`);
  const [before = '', after = ''] = term.includes('...') ? term.split('...') : [term];
  return [...Array.from(before), ...dots, ...Array.from(after)];
}

function sizesOf(
  operands: readonly (readonly string[])[],
  shapes: readonly Shape[],
  fault: Fault,
): Map<string, number> {
  const sizes = new Map<string, number>();
  operands.forEach((labels, i) => {
    labels.forEach((label, dim) => {
      const size = shapes[i]?.[dim] ?? 1;
      const known = sizes.get(label) ?? 1;
      if (known !== 1 && size !== 1 && known !== size) {
        const name = label.startsWith('.') ? '...' : `'${label}'`;
        throw fault(`sizes ${known} and ${size} of ${name}`, 'Make them equal, or one of them 1');
      }
      if (known === 1) sizes.set(label, size);
    });
  });
  return sizes;
}

/**
 * Returns the labels of the result of an equation without an arrow: the letters that occur once, in alphabetical order.
 */
function once(terms: readonly string[]): string[] {
  const letters = Array.from(terms.join('').replaceAll('.', ''));
  const counts = new Map<string, number>();
  for (const letter of letters) counts.set(letter, (counts.get(letter) ?? 0) + 1);
  return [...counts].flatMap(([letter, count]) => (count === 1 ? [letter] : [])).toSorted();
}
