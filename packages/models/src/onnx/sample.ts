import { ConfigError, describeValue, type Module, Tensor } from '@shardwise/core/extend';
import { stateName } from '../model/state-module.ts';

/** A tensor of a sample, with the name of the file's input. */
export interface SampleInput {
  readonly name: string;
  readonly tensor: Tensor;
}

/** The arguments of a forward pass, seen as named tensors. */
export interface Sample<Inputs> {
  readonly inputs: readonly SampleInput[];
  /** The arguments with other tensors, in the order of `inputs`. */
  with(tensors: readonly Tensor[]): Inputs;
}

/**
 * Names the tensors of a call. An argument has the name of the parameter of `forward`, and a tensor in an object that of
 * its key, in snake_case. `names` replace them, in order. Throws ConfigError for arguments that a file cannot have as
 * inputs, and for names that are not all different.
 */
export function sampleOf<Inputs extends readonly unknown[]>(
  model: Module & { forward(...inputs: Inputs): unknown },
  given: Inputs,
  names: readonly string[] = [],
): Sample<Inputs> {
  const parameters = parameterNames(model);
  const inputs: SampleInput[] = [];
  const add = (tensor: Tensor, name: string): Tensor => {
    inputs.push({ name: names[inputs.length] ?? stateName(name), tensor });
    return tensor;
  };
  given.forEach((argument, at) => replaced(argument, parameters[at] ?? `input_${at}`, add));
  const found = inputs.map(({ name }) => name);
  if (
    inputs.length === 0 ||
    names.length > inputs.length ||
    new Set(found).size < found.length ||
    found.some((name) => name === '' || name.startsWith('/'))
  ) {
    throw new ConfigError(
      {
        asked: `an ONNX file with the inputs ${JSON.stringify(found)}`,
        found: `a sample of ${inputs.length} tensors${names.length > 0 ? `, and the inputNames ${JSON.stringify(names)}` : ''}`,
        todo: 'Give a sample with tensors, and a different name for each of them, without / at its start',
      },
      { inputs: found, inputNames: names },
    );
  }
  return {
    inputs,
    with(tensors) {
      let next = 0;
      const take = (tensor: Tensor): Tensor => tensors[next++] ?? tensor;
      // Each argument keeps its structure, so that the list is still one of the arguments of forward().
      return given.map((argument) => replaced(argument, '', take)) as unknown as Inputs;
    },
  };
}

/** Replaces the tensors of an argument. Settings, such as numbers, stay what they are. */
function replaced(
  argument: unknown,
  name: string,
  replace: (tensor: Tensor, name: string) => Tensor,
): unknown {
  if (argument instanceof Tensor) return replace(argument, name);
  if (argument === null || (typeof argument !== 'object' && typeof argument !== 'function')) {
    return argument;
  }
  if (typeof argument === 'object' && Object.getPrototypeOf(argument) === Object.prototype) {
    const entries = Object.entries(argument).map(([key, value]: [string, unknown]) => [
      key,
      replaced(value, key, replace),
    ]);
    return Object.fromEntries(entries);
  }
  throw new ConfigError({
    asked: `an ONNX file of a call with ${name}`,
    found: describeValue(argument),
    todo: 'Give tensors, plain objects of tensors, and settings that are numbers, texts or flags',
  });
}

/** The names of the parameters of forward(), as its source has them. Undefined for those that are objects of names. */
function parameterNames(model: Module): readonly (string | undefined)[] {
  const source = String(Reflect.get(model, 'forward')).replaceAll(/\{[^{}]*\}/g, '');
  const [, list = ''] = /^[^(]*\(([^)]*)/.exec(source) ?? [];
  return list.split(',').map((each) => /^\s*([A-Za-z_$][\w$]*)/.exec(each)?.[1]);
}
