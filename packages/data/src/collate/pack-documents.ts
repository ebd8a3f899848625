import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import { IGNORED, idsArray, idsOf, type TokenRows } from './token-rows.ts';

/** Options of `packDocuments`. */
export interface PackDocumentsOptions {
  /** T, the number of tokens of a row. */
  readonly contextLength: number;
  /**
   * Whether a document goes on in the next row where a row is full, as in pre-training. With false, documents stay whole,
   * rows are padded, and a document that is longer than a row is an error. Default: true.
   */
  readonly cut?: boolean;
  /** The id of the token with which rows are padded. */
  readonly padTokenId: number;
}

const packRules: OptionRules<PackDocumentsOptions> = {
  contextLength: option.required(option.integer(2)),
  cut: option.flag,
  padTokenId: option.required(option.count),
};

/** A part of a document in a row. */
interface Piece {
  readonly ids: Int32Array;
  readonly labels: Int32Array;
}

/**
 * Packs documents into rows of one length. `documents` numbers the documents of a row, so that attention and the loss keep
 * them apart: models take it in their call. Positions begin anew with each document. What is padded is a document of its
 * own, whose labels are -100. Documents without `labels` are learned whole. Whole documents (`cut: false`) are put, the
 * longest first, into the fullest row that has room, which needs all of them in memory; others are packed as they come.
 * Shape: inputIds [t], labels [t] -> inputIds, labels, documents, positionIds [T].
 */
export function* packDocuments(
  samples: Iterable<TokenRows>,
  options: PackDocumentsOptions,
): IteratorObject<TokenRows, undefined> {
  checkOptions('packDocuments', options, packRules);
  const { contextLength, cut = true, padTokenId } = options;
  const pieces = piecesOf(samples);
  const rows = cut ? cutRows(pieces, contextLength) : wholeRows(pieces, contextLength);
  for (const row of rows) yield packedRow(row, contextLength, padTokenId);
  return undefined;
}

function* piecesOf(samples: Iterable<TokenRows>): Iterable<Piece> {
  let index = 0;
  for (const sample of samples) {
    const name = `document ${index++}`;
    const ids = idsOf(sample, 'inputIds', name);
    const labels = sample['labels'] === undefined ? ids : idsOf(sample, 'labels', name);
    if (labels.length !== ids.length) throw otherLength(name, ids.length, labels.length);
    if (ids.length > 0) yield { ids, labels };
  }
}

function* cutRows(pieces: Iterable<Piece>, contextLength: number): Iterable<Piece[]> {
  let row: Piece[] = [];
  let room = contextLength;
  for (const { ids, labels } of pieces) {
    for (let start = 0; start < ids.length;) {
      const end = Math.min(ids.length, start + room);
      row.push({ ids: ids.subarray(start, end), labels: labels.subarray(start, end) });
      room -= end - start;
      start = end;
      if (room > 0) continue;
      yield row;
      row = [];
      room = contextLength;
    }
  }
  if (row.length > 0) yield row;
}

/** Best fit, with the longest documents first. */
function wholeRows(pieces: Iterable<Piece>, contextLength: number): readonly Piece[][] {
  const rows: { room: number; readonly pieces: Piece[] }[] = [];
  /** Rows by their room, so that the fullest one is found in at most contextLength steps. */
  const byRoom = new Map<number, number[]>();
  const sorted = [...pieces].toSorted((a, b) => b.ids.length - a.ids.length);
  for (const piece of sorted) {
    const { length } = piece.ids;
    if (length > contextLength) throw tooLong(length, contextLength);
    let room = length;
    while (room < contextLength && (byRoom.get(room)?.length ?? 0) === 0) room += 1;
    const found = room < contextLength ? byRoom.get(room)?.pop() : undefined;
    const index = found ?? rows.push({ room: contextLength, pieces: [] }) - 1;
    const row = rows[index];
    if (row === undefined) continue;
    row.pieces.push(piece);
    row.room -= length;
    const others = byRoom.get(row.room) ?? [];
    others.push(index);
    byRoom.set(row.room, others);
  }
  return rows.map((row) => row.pieces);
}

function packedRow(pieces: readonly Piece[], contextLength: number, padTokenId: number): TokenRows {
  const inputIds = new Int32Array(contextLength).fill(padTokenId);
  const labels = new Int32Array(contextLength).fill(IGNORED);
  const documents = new Int32Array(contextLength).fill(pieces.length);
  const positionIds = new Int32Array(contextLength);
  let end = 0;
  for (const [number, piece] of pieces.entries()) {
    inputIds.set(piece.ids, end);
    labels.set(piece.labels, end);
    documents.fill(number, end, end + piece.ids.length);
    for (let at = 0; at < piece.ids.length; at++) positionIds[end + at] = at;
    end += piece.ids.length;
  }
  for (let at = end; at < contextLength; at++) positionIds[at] = at - end;
  return {
    inputIds: idsArray(inputIds),
    labels: idsArray(labels),
    documents: idsArray(documents),
    positionIds: idsArray(positionIds),
  };
}

function tooLong(tokens: number, contextLength: number): ConfigError {
  return new ConfigError(
    {
      asked: `to pack whole documents into rows of ${contextLength} tokens`,
      found: `a document of ${tokens} tokens`,
      todo: 'Raise contextLength, cut documents when you encode them (maxLength), or set cut: true',
    },
    { tokens, contextLength },
  );
}

function otherLength(name: string, ids: number, labels: number): ConfigError {
  return new ConfigError(
    {
      asked: `to pack ${name}`,
      found: `${ids} tokens and ${labels} labels`,
      todo: 'Give one label for each token, -100 for those that are not learned',
    },
    { ids, labels },
  );
}
