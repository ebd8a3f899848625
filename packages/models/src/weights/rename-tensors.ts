import type { Module, TensorSource } from '@shardwise/core/extend';
import { PretrainedModel } from '../model/pretrained-model.ts';

type Rename = (name: string) => string | null;

/**
 * Returns how tensors of a file are called in a model, after the names that the user gives. Files of the model without
 * its head lack the prefix of the base model, and the base model itself lacks it where files of a model with a head have
 * it. Names of another library that the model knows become its own. Tensors that older files have although they are
 * computed from the config are dropped.
 */
export function renameFor(source: TensorSource, model: Module, own: Rename): Rename {
  const inModel: Rename = (name) => {
    const given = own(name);
    return given !== null && model instanceof PretrainedModel ? model.nameOfStored(given) : given;
  };
  const byPrefix = renameByPrefix(source, model, inModel);
  return (name) => {
    const given = inModel(name);
    if (given === null || isComputed(source, name, given)) return null;
    return byPrefix(given);
  };
}

function renameByPrefix(
  source: TensorSource,
  model: Module,
  own: Rename,
): (name: string) => string {
  if (!(model instanceof PretrainedModel) || model.baseModelPrefix === '') return (name) => name;
  const prefix = `${model.baseModelPrefix}.`;
  const known = new Set(model.namedState().map(([name]) => name));
  const isPrefixed = (names: Iterable<string>): boolean =>
    [...names].some((name) => name.startsWith(prefix));
  const [inFile, inModel] = [
    isPrefixed(source.names.map((name) => own(name) ?? '')),
    isPrefixed(known),
  ];
  if (inFile === inModel) return (name) => name;
  if (inModel) return (name) => (known.has(name) ? name : prefix + name);
  return (name) => (name.startsWith(prefix) ? name.slice(prefix.length) : name);
}

/** Whether a tensor is one of those that Python wrote in earlier versions although the config determines them. */
function isComputed(source: TensorSource, name: string, given: string): boolean {
  if (/(^|\.)(rotary_emb\.inv_freq|attn\.masked_bias|embeddings\.position_ids)$/.test(given)) {
    return true;
  }
  // GPT-2's causal mask has the name of a bias, but it is a square of the context length.
  const { shape = [] } = source.get(name) ?? {};
  const [batch, heads, rows, columns] = shape;
  return (
    /(^|\.)attn\.bias$/.test(given) &&
    shape.length === 4 &&
    batch === 1 &&
    heads === 1 &&
    rows === columns
  );
}
