import { singleGroup } from '@shardwise/collectives';
import { fromData, LineMesh, nn, optim, setRank } from '@shardwise/core';
import { diloco, type Members, parallelize } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { VirtualNetwork } from './virtual-network.ts';

const samples = 64;
const every = 4;

/** Trains a layer on samples that all members have, until so many rounds have ended. Returns the values after these. */
async function train(
  network: VirtualNetwork,
  name: string,
  rounds: number,
  observe: (members: Members) => Members = (members) => members,
): Promise<readonly number[]> {
  const [values] = await onRanks(
    1,
    async () => {
      setRank({ device: interpreter(), mesh: new LineMesh('dp', singleGroup()) });
      const member = network.member(name);
      await member.connect();
      const layer = new nn.Linear(3, 2);
      const strategy = diloco({
        every,
        bits: 8,
        members: observe(member),
        audit: {
          samples,
          batchSize: 2,
          optimizer: () => new optim.AdamW(layer.parameters(), { lr: 0.1 }),
          async step({ indices, optimizer }) {
            const rows = indices.flatMap((at) => [Math.sin(at), Math.cos(at), at / samples]);
            optimizer.zeroGrad();
            const x = fromData(Float32Array.from(rows), [2, 3], 'f32');
            const loss = parallel.forward(x).sub(1).square().mean();
            loss.backward();
            await optimizer.step();
            return loss.item();
          },
        },
      });
      const parallel = await parallelize(layer, strategy);
      while (strategy.outer.outerSteps < rounds) await strategy.outer.update();
      const found: number[] = [];
      for (const parameter of layer.parameters())
        found.push(...Array.from(await parameter.data(), Number));
      member.close();
      return found;
    },
    { idleTimeoutMs: 60_000 },
  );
  return values ?? [];
}

it('members that train by diloco find what others have made up, and agree about all other updates', async () => {
  // The thread takes longer to compute than virtual time would allow.
  const patient = { roundTimeoutMs: 1e6, stateTimeoutMs: 1e6 };
  const network = new VirtualNetwork(1, { ...patient, audit: 0.4 });
  const cheat = (members: Members): Members => ({
    specificationVersion: 1,
    ...(members.audits === undefined ? {} : { audits: members.audits }),
    enter: (run, own) => members.enter(run, own),
    // One bit of one code is another one.
    exchange: (round, message) =>
      members.exchange(
        round,
        message.map((byte, at) => (at === message.length - 1 ? byte ^ 1 : byte)),
      ),
    follow: (completed) => members.follow(completed),
    took: (state) => members.took(state),
    refuse: (round, refused) => members.refuse(round, refused),
  });
  const honest = ['a', 'b', 'c'].map((name) => train(network, name, 20));
  const cheating = train(network, 'cheat', 20, cheat).catch((error: unknown) => error);
  const [ended, ...found] = await network.run(Promise.all([cheating, ...honest]));
  expect((ended as Error).cause).toMatchObject({
    code: 'REFUSED',
    fields: { refusal: 'audit' },
  });
  for (const values of found) expect(values).toEqual(found[0]);
  // Nothing but its updates was ever doubted, however many of them were drawn before the third word.
  const disputes = network.notices.filter((each) => each.includes('has other bits'));
  expect(disputes.length).toBeGreaterThan(0);
  for (const each of disputes)
    expect(each).toMatch(/ of member \d+ \(cheat\); another one is asked$/);
  expect(network.coordinator.status.audits.made).toBeGreaterThan(5);
});
