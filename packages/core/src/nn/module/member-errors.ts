import { ConfigError } from '../../spec/errors.ts';
import type { HiddenMember } from './hidden-member.ts';

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
