import { joinPageWorld } from '@shardwise/collectives';
import { valuesOf, type RankAnswer, type RankTask } from './messages.ts';

// A rank in a worker of the page.

addEventListener('message', ({ data }: MessageEvent<RankTask>) => {
  void perform(data).then((answer) => postMessage(answer));
});

async function perform({ pageRank, elements }: RankTask): Promise<RankAnswer> {
  try {
    const group = await joinPageWorld(pageRank);
    const { rank, size, world } = pageRank;
    const values = valuesOf(rank, elements);
    // If ranks share memory, the values go into this rank's own part of it.
    const region = world?.regions[rank];
    const bytes =
      world === undefined || region === undefined
        ? new Uint8Array(values.buffer)
        : new Uint8Array(world.memory.buffer, region.byteOffset, values.byteLength);
    bytes.set(new Uint8Array(values.buffer));
    await group.allReduce({ bytes, dtype: 'f32' }, 'sum');
    const gathered = new Int32Array(size);
    await group.allGather(
      { bytes: new Uint8Array(Int32Array.of(rank * rank).buffer), dtype: 'i32' },
      { bytes: new Uint8Array(gathered.buffer), dtype: 'i32' },
    );
    await group.barrier();
    const reduced = [...new Float32Array(bytes.slice().buffer)];
    group.close();
    return { status: 'fulfilled', reduced, gathered: [...gathered] };
  } catch (error) {
    return { status: 'rejected', message: String(error) };
  }
}
