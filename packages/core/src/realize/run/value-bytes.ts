import { formatShape } from '../../base/shape.ts';
import type { Node, NodeValue } from '../../graph/node.ts';
import type { Page } from '../../paging/page.ts';
import { TensorStateError } from '../../spec/errors.ts';

/** A value that can be read. */
export type ReadableValue = Extract<NodeValue, { readonly kind: 'host' | 'device' | 'paged' }>;

/** The value of a computed node. Throws the error of a run that failed, and TensorStateError for freed memory. */
export function readableValue({ value, shape }: Node): ReadableValue {
  if (value?.kind === 'failed') throw value.error;
  if (value !== null && value.kind !== 'freed') return value;
  throw new TensorStateError(
    {
      asked: `the data of a tensor of shape ${formatShape(shape)}`,
      found: `its memory was freed by ${value?.by ?? 'an earlier run'}`,
      todo: 'Read it before it is freed',
    },
    { shape },
  );
}

export async function pageBytes(page: Page): Promise<Uint8Array> {
  const bytes = new Uint8Array(page.byteLength);
  await page.read(bytes);
  return bytes;
}
