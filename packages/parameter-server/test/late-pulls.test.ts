import { cpu } from '@shardwise/backend-cpu';
import { singleGroup } from '@shardwise/collectives';
import { LineMesh, manualSeed, nn, optim, setRank, subscribe, tensor } from '@shardwise/core';
import { CollectiveError, type RequestConnection } from '@shardwise/core/extend';
import type { ParameterServers } from '@shardwise/parameter-server';
import { parameterServer } from '@shardwise/parameter-server';
import { parallelize } from '@shardwise/strategies';
import { beforeEach, describe, expect, it } from 'vitest';
import { ShardLink } from '../src/client/shard-link.ts';
import { directServers, startServers } from './direct-servers.ts';

beforeEach(async () => setRank({ device: await cpu(), mesh: new LineMesh('dp', singleGroup()) }));

type Answer = readonly Uint8Array[];

/** Returns the places that a pull asks for. Returns undefined for other requests. */
function pulledBy([head]: Answer): readonly number[] | undefined {
  const { kind, parameters } = JSON.parse(new TextDecoder().decode(head));
  return kind === 'pull' ? parameters : undefined;
}

/** Servers whose answers to pulls pass through `change`, which may delay them or fail. */
function changed(
  servers: ParameterServers,
  change: (places: readonly number[], answer: Answer) => Promise<Answer>,
): ParameterServers {
  const watch = (connection: RequestConnection): RequestConnection => ({
    ...connection,
    request: async (parts, read, options) => {
      const places = pulledBy(parts);
      if (places === undefined) return connection.request(parts, read, options);
      const answer = await connection.request(parts, (all) => all.map((part) => part.slice()));
      return read(await change(places, answer));
    },
  });
  return { ...servers, connect: async (server) => watch(await servers.connect(server)) };
}

const widths = [3, 5, 4, 2];

function stack(): nn.Sequential {
  manualSeed(5);
  return new nn.Sequential(
    ...widths.slice(1).map((width, index) => new nn.Linear(widths[index] ?? 0, width)),
  );
}

interface Training {
  readonly model: nn.Sequential;
  readonly step: () => Promise<void>;
}

/** Sets up a training in which each layer is a bucket. Without `change`, the model trains on this rank alone. */
async function training(change?: Parameters<typeof changed>[1]): Promise<Training> {
  const model = stack();
  if (change !== undefined) {
    const [server] = await startServers(1);
    if (server === undefined) throw new Error('no server');
    const servers = changed(directServers([server.handler]), change);
    const strategy = parameterServer({ servers, consistency: 'asynchronous', bucketBytes: 24 });
    await parallelize(model, strategy);
  }
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  return {
    model,
    step: async () => {
      optimizer.zeroGrad();
      model
        .forward(tensor([[1, 3, 2]]))
        .square()
        .sum()
        .backward();
      await optimizer.step();
    },
  };
}

async function valuesOf(model: nn.Module): Promise<readonly number[]> {
  const values: number[] = [];
  for (const parameter of model.parameters()) {
    values.push(...((await parameter.data()) as Float32Array));
  }
  return values;
}

async function alone(steps: number): Promise<readonly number[]> {
  const { model, step } = await training();
  for (let done = 0; done < steps; done++) await step();
  return valuesOf(model);
}

describe('values on their way from the servers', () => {
  it('are waited for where the forward pass needs them: older layers compute meanwhile', async () => {
    let gate: Promise<void> = Promise.resolve();
    const { model, step } = await training(async (places, answer) => {
      if (places.includes(5)) await gate;
      return answer;
    });
    // The new values of the last layer arrive only when another layer of the next step has been computed.
    const { promise, resolve } = Promise.withResolvers<void>();
    gate = promise;
    await step();
    const unsubscribe = subscribe(({ category }) => {
      if (category === 'compute') resolve();
    });
    await step();
    unsubscribe();
    expect(await valuesOf(model)).toEqual(await alone(2));
  });

  it('are waited for by who reads a parameter', async () => {
    let isSlow = false;
    const { model, step } = await training(async (_, answer) => {
      if (isSlow) await new Promise((resolve) => setTimeout(resolve, 20));
      return answer;
    });
    isSlow = true;
    await step();
    expect(await valuesOf(model)).toEqual(await alone(1));
  });

  it('are asked for again where the connection was lost', async () => {
    let count = 0;
    const { model, step } = await training(async (_, answer) => {
      const lost = { asked: 'a request', found: 'lost', todo: 'Again' };
      if (++count % 5 === 0) throw new CollectiveError(lost, { lost: 'server 0' });
      return answer;
    });
    for (let done = 0; done < 4; done++) await step();
    expect(await valuesOf(model)).toEqual(await alone(4));
  });

  it('fail the run that needs them where they are not whole', async () => {
    let isShort = false;
    const { step } = await training(async (_, [head = new Uint8Array(0), ...values]) => [
      head,
      ...values.map((bytes) => (isShort ? bytes.subarray(4) : bytes)),
    ]);
    isShort = true;
    await step();
    await expect(step()).rejects.toThrow(/56 bytes where 60 are due/);
  });

  it('that came to nothing fail the run that needs them', async () => {
    let isBroken = false;
    const { step } = await training(async (_, answer) => {
      if (isBroken) throw new Error('the disk is full');
      return answer;
    });
    isBroken = true;
    await step();
    await expect(step()).rejects.toThrow(/the disk is full/);
  });
});

describe('a server', () => {
  const sgd = { optimizer: 'SGD', groups: [{ params: [0, 1], settings: { lr: 1 } }] };
  const floats = (...values: readonly number[]): Uint8Array =>
    new Uint8Array(Float32Array.from(values).buffer);
  const numbers = (values: Answer): readonly number[] =>
    values.flatMap((bytes) => [...new Float32Array(bytes.slice().buffer)]);

  async function links(): Promise<readonly [ShardLink, ShardLink]> {
    const [server] = await startServers(1);
    if (server === undefined) throw new Error('no server');
    const servers = directServers([server.handler]);
    const parameters = ['a', 'b'].map((name) => ({ name, shape: [1] }));
    const consistency = { kind: 'bounded', staleness: null } as const;
    const job = { workers: 2, consistency, parameters };
    const link = (worker: number): ShardLink =>
      new ShardLink({ servers, shard: 0, worker, job, timeoutMs: 2000 });
    const both = [link(0), link(1)] as const;
    for (const each of both) await each.join();
    await both[0].initialise([floats(0), floats(0)]);
    return both;
  }
  const push = { recipe: sgd, present: [true, true], dtype: 'f32' } as const;

  it('has the values of a push for its worker, whatever others have pushed since', async () => {
    const [one, other] = await links();
    await one.push(push, [floats(1), floats(2)]);
    expect(await one.pull([1], numbers)).toEqual([-2]);
    await other.push(push, [floats(10), floats(20)]);
    expect(await one.pull([0], numbers)).toEqual([-1]);
    expect(await other.pull([0, 1], numbers)).toEqual([-11, -22]);
    // Values that were pulled are not kept.
    expect(await one.pull([0, 1], numbers)).toEqual([-11, -22]);
  });

  it('refuses a pull of what is not there', async () => {
    const [one] = await links();
    await expect(one.pull([2], numbers)).rejects.toMatchObject({
      code: 'REFUSED',
      fields: { refusal: 'malformed' },
    });
  });
});
