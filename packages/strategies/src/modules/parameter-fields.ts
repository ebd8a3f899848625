import { type Module, Parameter } from '@shardwise/core/extend';

/** A field of a module that holds a parameter. */
export interface ParameterField {
  readonly module: Module;
  readonly field: string;
}

/** Returns the fields of a module and of all modules in it that hold one of these parameters. */
export function fieldsOf(
  layer: Module,
  parameters: ReadonlySet<unknown>,
): readonly ParameterField[] {
  return layer
    .namedModules()
    .flatMap(([, module]) =>
      Object.entries(module).flatMap(([field, value]) =>
        parameters.has(value) ? [{ module, field }] : [],
      ),
    );
}

/**
 * Runs `body` while fields hold what `replace` returns for their parameters. Only the modules of the fields see it: whoever
 * has a parameter itself still reads the parameter.
 */
export function withParametersIn<T>(
  fields: readonly ParameterField[],
  replace: (parameter: Parameter) => Parameter,
  body: () => T,
): T {
  const held = fields.map(({ module, field }) => {
    const value: unknown = Reflect.get(module, field);
    return { module, field, value };
  });
  for (const { module, field, value } of held) {
    if (value instanceof Parameter) Reflect.set(module, field, replace(value));
  }
  try {
    return body();
  } finally {
    for (const { module, field, value } of held) Reflect.set(module, field, value);
  }
}
