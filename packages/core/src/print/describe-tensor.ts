import type { Node } from '../graph/node.ts';
import { formatShape } from '../base/shape.ts';
import type { DType, Shape } from '../spec/dtype.ts';
import { formatArray, formatEdges } from './format-array.ts';
import type { PrintForm } from './inspect.ts';

/** The facts about a tensor that are printed. */
export interface DescribedTensor {
  readonly node: Node;
  readonly shape: Shape;
  readonly dtype: DType;
  readonly requiresGrad: boolean;
  /** The axes over which ranks have parts of the whole tensor. */
  readonly shardedOver: readonly string[];
  readonly wholeShape: Shape;
}

/**
 * The name, dtype, shape, part and place of a tensor, and its values if they lie in host memory. Computes nothing.
 * `isComputing`: whether calls of the session are under way, so that values on the device may be changing.
 */
export function describeTensor(
  tensor: DescribedTensor,
  form: PrintForm,
  isComputing: boolean,
): string {
  const { node, dtype, shape, shardedOver, requiresGrad } = tensor;
  if (node.distributed !== null) return node.distributed.describe(form);
  const part =
    shardedOver.length === 0
      ? ''
      : `, a part of ${formatShape(tensor.wholeShape)} over ${shardedOver.join(' and ')}`;
  const { place, bytes } = contentsOf(node, isComputing);
  const gradient = requiresGrad ? ', requiresGrad' : '';
  const type = `${tensor.constructor.name} ${dtype} ${formatShape(shape)}${part}`;
  const isPlace = part === '' && /^[io]n /.test(place);
  const head = `${type}${isPlace ? ' ' : ', '}${place}${gradient}`;
  if (bytes === undefined) return head;
  return `${head}${valuesBehind(head, { dtype, shape, bytes }, form)}`;
}

/** Describes an array on the host. `name` says what it is. */
export function describeArray(
  name: string,
  array: { readonly dtype: DType; readonly shape: Shape; readonly bytes: Uint8Array },
  form: PrintForm,
): string {
  const head = `${name} ${array.dtype} ${formatShape(array.shape)}`;
  return `${head}${valuesBehind(head, array, form)}`;
}

/** The values after the head of the text. They are on its line if they fit. */
function valuesBehind(
  head: string,
  array: { readonly dtype: DType; readonly shape: Shape; readonly bytes: Uint8Array },
  form: PrintForm,
): string {
  if (form === 'line') return `: ${formatEdges(array)}`;
  const values = formatArray(array);
  const fits = !values.includes('\n') && head.length + values.length + 2 <= 80;
  return fits ? `: ${values}` : `:\n${values}`;
}

function contentsOf(
  { value, op }: Node,
  isComputing: boolean,
): { readonly place: string; readonly bytes?: Uint8Array } {
  if (value === null) return { place: `not computed yet (${op})` };
  switch (value.kind) {
    case 'host': {
      const { buffer } = value.bytes;
      const isGone = buffer instanceof ArrayBuffer && buffer.detached;
      if (isGone) return { place: 'in an array whose memory was given away' };
      return { place: 'on the host', bytes: value.bytes };
    }
    case 'paged':
      return { place: 'in a page store' };
    case 'freed':
      return { place: `freed by ${value.by}` };
    case 'failed': {
      const { error } = value;
      return {
        place: `which could not be computed (${error instanceof Error ? error.name : String(error)})`,
      };
    }
    case 'device': {
      const { backend, buffer } = value.storage;
      if (isComputing) return { place: `on the device (${backend.name}), which is computing` };
      const bytes = backend.map(buffer);
      if (bytes === undefined) return { place: `on the device (${backend.name})` };
      return { place: `on ${backend.name}`, bytes };
    }
    default:
      return value satisfies never;
  }
}
