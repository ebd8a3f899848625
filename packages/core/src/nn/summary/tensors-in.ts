import type { Node } from '../../graph/node.ts';
import { Tensor } from '../../tensor/tensor.ts';
import type { Named } from '../module/module.ts';

/** A tensor, or the tensors in lists and records, with their names. */
export function tensorsIn(value: unknown): readonly Named<Tensor>[] {
  if (value instanceof Tensor) return [['', value]];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, item]) =>
    tensorsIn(item).map(([rest, tensor]): Named<Tensor> => [
      rest === '' ? name : `${name}.${rest}`,
      tensor,
    ]),
  );
}

/** The nodes of these tensors. */
export function nodesIn(value: unknown): readonly Node[] {
  return tensorsIn(value).map(([, { node }]) => node);
}
