import { fromData, setRank } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { expect, it } from 'vitest';
import { narrowed, widened } from '../src/pipeline/messages/message-bytes.ts';

it.each(['bf16', 'f16'] as const)(
  'what travels in %s is rounded as a cast rounds it',
  async (dtype) => {
    setRank({ device: interpreter() });
    const words = Uint32Array.from({ length: 4096 }, (_, at) => Math.imul(at, 0x9e3779b1) >>> 0);
    words.set([
      0x7f800000, 0xff800000, 0x7fc00001, 0x3f808000, 0x3f818000, 1, 0x80000000, 0x7f7fffff,
    ]);
    const values = new Float32Array(words.buffer);
    const sent = narrowed(new Uint8Array(words.buffer), dtype);
    expect(sent.byteLength).toBe(2 * words.length);
    const found = new Float32Array(widened(sent, dtype).buffer);
    expect(found).toEqual(await fromData(values, [words.length], 'f32').to(dtype).to('f32').data());
  },
);
