import { z } from 'zod';
import { packedRow, partOf, type Piece, pieceOf } from '../collate/pack-documents.ts';
import type { TokenRows } from '../collate/token-rows.ts';
import { anyState, checkState, lazy, type OpenCursor, type StreamState } from './cursor.ts';

const place = z.object({
  /** The place before the document that goes on in the next row, or before the next document. */
  before: anyState,
  /** How many of its tokens are in earlier rows. */
  used: z.int().min(0),
});

/** Packs documents into rows as they come. A document goes on in the next row where a row is full. */
export function openPacked(
  open: OpenCursor<TokenRows>,
  { contextLength, padTokenId }: { readonly contextLength: number; readonly padTokenId: number },
): OpenCursor<TokenRows> {
  return (epoch, state) => {
    const saved = state === undefined ? undefined : checkState(place, state, 'that is packed');
    const cursor = open(epoch, saved?.before);
    let skip = saved?.used ?? 0;
    let documents = 0;
    let current: { readonly piece: Piece; readonly before: StreamState; used: number } | undefined;
    const nextDocument = async (): Promise<typeof current> => {
      const before = cursor.state();
      const item = await cursor.next();
      if (item === undefined) return undefined;
      const piece = pieceOf(await item(), `document ${documents++} of a stream`);
      const used = Math.min(skip, piece.ids.length);
      skip = 0;
      return { piece, before, used };
    };
    return {
      next: async () => {
        const row: Piece[] = [];
        let room = contextLength;
        while (room > 0) {
          current ??= await nextDocument();
          if (current === undefined) break;
          const { piece, used } = current;
          const end = Math.min(piece.ids.length, used + room);
          if (end > used) row.push(partOf(piece, used, end));
          room -= end - used;
          current.used = end;
          if (end === piece.ids.length) current = undefined;
        }
        if (row.length === 0) return undefined;
        return lazy(() => packedRow(row, contextLength, padTokenId));
      },
      state: () =>
        current === undefined
          ? { before: cursor.state(), used: skip }
          : { before: current.before, used: current.used },
      close: () => cursor.close(),
    };
  };
}
