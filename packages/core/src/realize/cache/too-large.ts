import { placeOf } from '../../graph/call-site.ts';
import type { SizeLimit } from '../../graph/node.ts';
import { OutOfMemoryError } from '../../spec/errors.ts';

/** The error for declared sizes for which memory does not suffice. */
export function tooLarge(limits: readonly SizeLimit[], cause: OutOfMemoryError): OutOfMemoryError {
  const declared = limits.map(({ max, site }) => `${max}${placeOf(site)}`);
  return new OutOfMemoryError(
    {
      asked: `memory for sizes up to ${declared.join(' and ')}, as dynamic() declared`,
      found: cause.message,
      todo: 'Declare a smaller max',
    },
    { ...cause.fields, max: limits.map(({ max }) => max) },
    { cause },
  );
}
