import { CheckpointError } from '../../spec/errors.ts';
import { PickledDict, PickledTensor, type PickledValue } from './pickle-values.ts';

/** More dicts and tensors than any model has. It limits dicts that contain each other many times. */
const MAX_VISITS = 1_000_000;
const MAX_DEPTH = 16;

/**
 * The tensors of a state dict by name. Names of dicts inside of dicts are joined by points, such as
 * `model.linear.weight` in a training checkpoint. Other values are left out. Throws CheckpointError if there is no
 * tensor.
 */
export function namedTensors(root: PickledValue, path: string): ReadonlyMap<string, PickledTensor> {
  const refuse = (found: string): CheckpointError =>
    new CheckpointError(
      {
        asked: `Reading the tensors of ${path}`,
        found,
        todo: 'Give a file of torch.save(model.state_dict(), …)',
      },
      { path },
    );
  const tensors = new Map<string, PickledTensor>();
  let visits = 0;
  const visit = (value: PickledValue, name: string, depth: number): void => {
    if (++visits > MAX_VISITS) throw refuse(`more than ${MAX_VISITS} entries`);
    if (depth > MAX_DEPTH) throw refuse(`dicts inside of dicts, ${MAX_DEPTH} deep`);
    if (value instanceof PickledTensor) {
      tensors.set(name, value);
    } else if (value instanceof PickledDict) {
      for (const [key, entry] of value.entries) {
        if (typeof key === 'string') visit(entry, name === '' ? key : `${name}.${key}`, depth + 1);
      }
    }
  };
  visit(root, '', 0);
  if (tensors.size > 0) return tensors;
  throw refuse('no tensor in it that has a name');
}
