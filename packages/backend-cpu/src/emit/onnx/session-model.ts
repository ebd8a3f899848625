import { type Attribute, type OnnxGraph, type OnnxInitializer, encodeModel } from './model.ts';

/** A list of sizes that is an input of a session, because it is only known when the session runs. */
export interface SizeInput {
  readonly name: string;
  readonly sizes: readonly number[];
}

function isGiven(initializer: OnnxInitializer): boolean {
  return 'sizes' in initializer && initializer.sizes.some(Number.isNaN);
}

/**
 * Encodes the model of a graph. Numbers that are only known when the model runs are NaN in `pattern`. Lists with such
 * sizes become inputs.
 */
export function sessionModel(pattern: OnnxGraph): Uint8Array {
  const given = pattern.initializers.flatMap((initializer) =>
    'sizes' in initializer && isGiven(initializer)
      ? { name: initializer.name, type: 'i64' as const, shape: [initializer.sizes.length] }
      : [],
  );
  return encodeModel({
    ...pattern,
    initializers: pattern.initializers.filter((initializer) => !isGiven(initializer)),
    inputs: [...pattern.inputs, ...given],
  });
}

/** The lists of sizes that a session of `pattern` takes as inputs to run `graph`. */
export function sizeInputs(graph: OnnxGraph, pattern: OnnxGraph): readonly SizeInput[] {
  return graph.initializers.flatMap((initializer, index) => {
    const other = pattern.initializers[index];
    return 'sizes' in initializer && other !== undefined && isGiven(other) ? [initializer] : [];
  });
}

/** Whether a graph has attributes that are only known when it runs. A session cannot take attributes as inputs. */
export function hasGivenAttributes({ nodes }: OnnxGraph): boolean {
  return nodes.some(({ attributes }) => Object.values(attributes).some(isGivenAttribute));
}

function isGivenAttribute(attribute: Attribute): boolean {
  if ('ints' in attribute) return attribute.ints.some(Number.isNaN);
  if ('int' in attribute) return Number.isNaN(attribute.int);
  return 'float' in attribute && Number.isNaN(attribute.float);
}
