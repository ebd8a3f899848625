import { arange, ConfigError, formatShape, ShapeError, Tensor } from '@shardwise/core/extend';
import type { ForwardCall, RowPart } from '../model/forward-call.ts';
import { documentBounds, requireTokens } from './positions.ts';

/** What differs between models whose rows are cut. */
export interface RowRule {
  /** The place of each token in its sequence. Shape: inputIds i32 [B, T] -> i32 [B, T] or [1, T]. */
  readonly positions: (inputIds: Tensor, call: ForwardCall) => Tensor;
  /** The label of each token's result, -100 where none counts. Shape: labels i32 [B, T] -> [B, T]. */
  readonly labels: (labels: Tensor, call: ForwardCall) => Tensor;
}

/**
 * Prepares the inputs of a pass whose rows ranks are about to cut (ModelDivision.sequences): rows of `length` tokens that say of
 * each token what it cannot know from a part of its row. Padding has no labels, and place 0. Throws ConfigError for a cache, and for
 * logitsToKeep, and ShapeError for tensors that do not say something of each token.
 */
export function rowParts(rule: RowRule): (inputs: readonly unknown[], length: number) => unknown[] {
  return ([inputIds, given], length) => {
    if (!(inputIds instanceof Tensor)) return [inputIds, given];
    const call: ForwardCall = typeof given === 'object' && given !== null ? given : {};
    requireTokens('a forward pass of parts of rows', inputIds);
    requireWhole(call);
    requireLengths(inputIds, call);
    const { labels, documents, ...rest } = call;
    const padded = (x: Tensor, value = 0): Tensor => padRows(x, length, value);
    const [, own = 0] = inputIds.shape;
    const paddedInput = (value: unknown): unknown =>
      value instanceof Tensor ? padded(value.to('i32')) : value;
    const bounds = documents && documentBounds(documents);
    const counted = labels === undefined ? undefined : rule.labels(labels, call);
    const rowPart: RowPart = {
      places: padded(arange(own).unsqueeze(0)),
      ...(bounds && { documents: { starts: padded(bounds.starts), ends: padded(bounds.ends) } }),
      ...(counted && {
        labels: padded(counted, -100),
        labelCount: counted.ne(-100).to('f32').sum(),
      }),
    };
    return [
      padded(inputIds),
      {
        ...Object.fromEntries(Object.entries(rest).map(([key, each]) => [key, paddedInput(each)])),
        positionIds: padded(rule.positions(inputIds, call)),
        rowPart,
      },
    ];
  };
}

/** Shape: x [B, T] -> [B, length]. */
function padRows(x: Tensor, length: number, value: number): Tensor {
  const missing = length - (x.shape[1] ?? 0);
  return missing === 0 ? x : x.pad([0, 0], [0, missing], value);
}

/** Throws ShapeError for a tensor of the call that has not one number for each token of the rows, before padding would hide it. */
function requireLengths({ shape: [rows = 0, length = 0] }: Tensor, call: ForwardCall): void {
  for (const [name, value] of Object.entries(call)) {
    if (!(value instanceof Tensor)) continue;
    const [own, tokens, ...others] = value.shape;
    if (tokens === length && (own === rows || own === 1) && others.length === 0) continue;
    throw new ShapeError(
      {
        asked: `${name} of shape ${formatShape(value.shape)} under contextParallel`,
        found: `${rows} whole rows of ${length} tokens, which this rank is about to cut`,
        todo: `Give all ranks ${name} of whole rows: [${rows}, ${length}]`,
      },
      { [name]: value.shape, rows, length },
    );
  }
}

function requireWhole({ cache, logitsToKeep }: ForwardCall): void {
  if (cache === undefined && logitsToKeep === undefined) return;
  throw new ConfigError({
    asked: `a forward pass with ${cache === undefined ? 'logitsToKeep' : 'a cache'} under contextParallel`,
    found: 'rows whose tokens lie on several ranks, so none has the last ones of a row',
    todo: 'Generate with the model itself, as one rank has it',
  });
}
