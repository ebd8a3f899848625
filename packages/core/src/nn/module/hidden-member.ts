import { memberKindOf } from '../../member-brand.ts';
import { ConfigError, describeValue } from '../../spec/errors.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { isOwnedTensor, Parameter } from '../parameter/parameter.ts';

/** A value that looks like a member of a module, but is not found as one. */
interface HiddenMember {
  /** A description such as "a Linear inside an array". */
  readonly what: string;
  readonly todo: string;
}

/** The largest number of entries of a container that are searched. Members are rarely preceded by so many others. */
const MAX_ITEMS = 100;
const MAX_DEPTH = 4;

/** Returns the first member that the value of a field hides, of those that are not found elsewhere (`isFound`). */
export function hiddenMember(
  value: unknown,
  isFound: (member: object) => boolean,
): HiddenMember | undefined {
  return hiddenIn(value, '', isFound, 0);
}

function hiddenIn(
  value: unknown,
  inside: string,
  isFound: (member: object) => boolean,
  depth: number,
): HiddenMember | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const kind = memberKindOf(value);
  if (kind === 'foreign') {
    const what = `${describeValue(value)} of another copy of @shardwise/core${inside}`;
    return { what, todo: 'Install one version of the package; npm ls @shardwise/core lists them' };
  }
  if (isTrainedLeaf(value)) {
    const what = `a tensor that requires a gradient${inside} and is no Parameter`;
    return { what, todo: 'Make it one, in a field of its own: new nn.Parameter(data, shape)' };
  }
  if (kind !== null) {
    const isMember = inside === '' || !(kind === 'module' || isOwnedTensor(value));
    if (isMember || isFound(value)) return undefined;
    const list = kind === 'module' ? ', or into a ModuleList' : '';
    return {
      what: `${describeValue(value)}${inside}`,
      todo: `Put it into a field of its own${list}`,
    };
  }
  if (depth === MAX_DEPTH) return undefined;
  for (const item of itemsOf(value)) {
    const hidden = hiddenIn(item, ` inside ${containerName(value)}`, isFound, depth + 1);
    if (hidden !== undefined) return hidden;
  }
  return undefined;
}

/** Whether a value is a leaf that trains. Tensors that are computed from such leaves do not count. */
function isTrainedLeaf(value: object): boolean {
  if (!(value instanceof Tensor) || value instanceof Parameter) return false;
  const { op, requiresGrad } = value.contents;
  return requiresGrad && (op === 'input' || op === 'assign');
}

/**
 * The values inside a container or a plain object. Objects of classes are not searched, because what they hold is their
 * own business.
 */
function itemsOf(value: object): Iterable<unknown> {
  if (Array.isArray(value)) return value.slice(0, MAX_ITEMS);
  if (value instanceof Map)
    return [...value.keys().take(MAX_ITEMS), ...value.values().take(MAX_ITEMS)];
  if (value instanceof Set) return value.values().take(MAX_ITEMS);
  const prototype: unknown = Object.getPrototypeOf(value);
  const isPlain = prototype === Object.prototype || prototype === null;
  return isPlain ? Object.values(value).slice(0, MAX_ITEMS) : [];
}

function containerName(value: object): string {
  if (Array.isArray(value)) return 'an array';
  if (value instanceof Map) return 'a Map';
  return value instanceof Set ? 'a Set' : 'a plain object';
}

/** The error for a field that hides a member of its module. */
export function hiddenError(
  module: object,
  field: string,
  { what, todo }: HiddenMember,
): ConfigError {
  return new ConfigError(
    {
      asked: `the members of ${module.constructor.name}`,
      found: `${what} in the field '${field}', where parameters(), train() and stateDict() do not find it`,
      todo,
    },
    { module: module.constructor.name, field },
  );
}

/**
 * The error for members that a constructor has made and that are not found. `classes` are the names of their classes.
 */
export function missingError(module: object, classes: readonly string[]): ConfigError {
  const { name } = module.constructor;
  const list = [...new Set(classes)].join(', ');
  const several = classes.length > 1 ? `${classes.length} members (${list})` : `a ${list}`;
  return new ConfigError(
    {
      asked: `the members of ${name}`,
      found: `its constructor makes ${several} that no public field of it holds, where parameters(), train() and stateDict() would find them`,
      todo: 'Use public fields instead of #private ones, or a ModuleList; what is made to be dropped goes into nn.constructTemporary(() => …)',
    },
    { module: name, classes },
  );
}
