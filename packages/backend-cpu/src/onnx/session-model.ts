import type { Attribute, OnnxGraph, OnnxInitializer } from './model.ts';
import { encodeModel } from './model.ts';

/** Sizes that a session is given when it runs. */
export interface SizeInput {
  readonly name: string;
  readonly sizes: readonly number[];
}

function isGiven(initializer: OnnxInitializer): boolean {
  return 'sizes' in initializer && initializer.sizes.some(Number.isNaN);
}

/** The encoded model of a graph in which numbers that are given when it runs are NaN: lists of sizes become inputs. */
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

/** What a session of `pattern` is given when it runs `graph`. */
export function sizeInputs(graph: OnnxGraph, pattern: OnnxGraph): readonly SizeInput[] {
  return graph.initializers.flatMap((initializer, index) => {
    const other = pattern.initializers[index];
    return 'sizes' in initializer && other !== undefined && isGiven(other) ? [initializer] : [];
  });
}

/** Attributes cannot be given when a session runs. */
export function hasGivenAttributes({ nodes }: OnnxGraph): boolean {
  return nodes.some(({ attributes }) => Object.values(attributes).some(isGivenAttribute));
}

function isGivenAttribute(attribute: Attribute): boolean {
  if ('ints' in attribute) return attribute.ints.some(Number.isNaN);
  if ('int' in attribute) return Number.isNaN(attribute.int);
  return 'float' in attribute && Number.isNaN(attribute.float);
}
