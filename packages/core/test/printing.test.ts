import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { formatArray } from '../src/print/format-array.ts';
import { elementCount } from '../src/base/shape.ts';
import { type DType, isDType } from '../src/spec/dtype.ts';

interface Printed {
  readonly dtype: string;
  readonly shape: readonly number[];
  /** The bytes in base64, or the rule of the i-th element. */
  readonly bytes: string;
  readonly prints: string;
}

const golden: { readonly tensors: readonly Printed[] } = JSON.parse(
  readFileSync(new URL('golden/printing.json', import.meta.url), 'utf8'),
);

function bytesOf({ bytes, shape }: Printed): Uint8Array {
  const elements = Array.from({ length: elementCount(shape) }, (_, i) => i);
  if (bytes === 'i') return new Uint8Array(Int32Array.from(elements).buffer);
  if (bytes === 'i / 7') return new Uint8Array(Float32Array.from(elements, (i) => i / 7).buffer);
  return Buffer.from(bytes, 'base64');
}

function dtypeOf({ dtype }: Printed): DType {
  if (isDType(dtype)) return dtype;
  throw new Error(`no dtype ${dtype}`);
}

describe('values print as those of PyTorch', () => {
  test.each(golden.tensors.map((each, index) => [index, each] as const))(
    'in tensor %i of tools/golden-printing.py',
    (_, printed) => {
      const array = { dtype: dtypeOf(printed), shape: printed.shape, bytes: bytesOf(printed) };
      // Booleans print as Python's words.
      expect(formatArray(array)).toBe(
        printed.prints.replaceAll('True', 'true').replaceAll('False', 'false'),
      );
    },
  );
});
