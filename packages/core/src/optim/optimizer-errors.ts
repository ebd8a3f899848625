import { formatShape } from '../base/shape.ts';
import { CheckpointError, ConfigError, DTypeError, TensorStateError } from '../spec/errors.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { Updater } from '../tensor/updater.ts';

export function updatedElsewhere(asked: string, { name }: Updater): TensorStateError {
  return new TensorStateError(
    {
      asked: `${asked} of an optimizer`,
      found: `its parameters are updated by ${name}`,
      todo: 'Call step() without options; the states are saved where they lie',
    },
    { updater: name },
  );
}

/** The error for a parameter of another dtype than f32. A rule computes in f32, because its settings are f32. */
export function narrowError(name: string, part: Tensor, cause: DTypeError): DTypeError {
  const found = `it computes in f32, not in ${part.dtype}`;
  const todo = 'Keep parameters in f32, and use the mixedPrecision of a strategy';
  return new DTypeError(
    { asked: ruleOf(name, part), found, todo },
    { optimizer: name, dtype: part.dtype },
    { cause },
  );
}

export function ruleError(name: string, part: Tensor, found: string, todo: string): ConfigError {
  return new ConfigError(
    { asked: ruleOf(name, part), found, todo },
    { optimizer: name, shape: part.shape },
  );
}

function ruleOf(name: string, { shape }: Tensor): string {
  return `the update rule of ${name} for a parameter of shape ${formatShape(shape)}`;
}

/** Throws CheckpointError for saved groups that do not have the numbers of parameters of an optimizer's groups. */
export function checkGroups(
  groups: readonly { readonly params: readonly unknown[] }[],
  saved: readonly { readonly params: readonly unknown[] }[],
): void {
  const [asked = '', found] = [groups, saved].map(
    (list) => `groups of ${list.map(({ params }) => params.length).join(', ')} parameters`,
  );
  if (asked !== found) throw unfitting(asked, `${found}`, 'model', { asked, found });
}

export function unknownParameter(index: string, count: number): CheckpointError {
  return unfitting(`parameter ${index}`, `${count} parameters`, 'model', { index, count });
}

export function unknownState(
  name: string,
  optimizer: string,
  names: readonly string[],
): CheckpointError {
  const found = `${optimizer} keeps ${names.join(', ') || 'nothing'}`;
  return unfitting(name, found, 'class', { name, optimizer });
}

function unfitting(
  state: string,
  found: string,
  same: 'model' | 'class',
  fields: Readonly<Record<string, unknown>>,
): CheckpointError {
  const todo = `Load the state of an optimizer of the same ${same}`;
  return new CheckpointError({ asked: `load the state of ${state}`, found, todo }, fields);
}
