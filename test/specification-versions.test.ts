import {
  createGroup,
  createLoopbackTransports,
  createMesh,
  singleGroup,
} from '@shardwise/collectives';
import { ConfigError, nn, setRank } from '@shardwise/core';
import { compose, ddp, diloco, type Members, parallelize, planFor } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { init } from 'shardwise';
import { beforeEach, describe, expect, it } from 'vitest';

beforeEach(() => setRank({ device: interpreter() }));

/** The object, as a package would make it that was built for another version of its interface. */
function ofVersion<T extends object>(version: number | undefined, object: T): T {
  return Object.create(object, { specificationVersion: { value: version } });
}

const model = (): nn.Linear => new nn.Linear(2, 2);
const [transport] = createLoopbackTransports(1);

const nobody: Partial<Members> = {};

const doors = {
  'init with a device': (version) => init({ device: ofVersion(version, interpreter()) }),
  'init with a group': (version) => init({ group: ofVersion(version, singleGroup()) }),
  'setRank with a device': (version) => setRank({ device: ofVersion(version, interpreter()) }),
  'createGroup with a transport': (version) => createGroup(ofVersion(version, transport!)),
  'createMesh with a group': (version) =>
    createMesh(ofVersion(version, singleGroup()), [{ name: 'dp', size: 1 }]),
  'diloco with members': (version) =>
    diloco({ every: 1, members: ofVersion(version, nobody as Members) }),
  'a strategy': (version) => parallelize(model(), ofVersion(version, ddp())),
} satisfies Record<string, (version: number | undefined) => unknown>;

describe('an object that was built for another version of its interface is refused', () => {
  it.each(Object.entries(doors))('at %s', async (asked, enter) => {
    const refused = async (version: number | undefined): Promise<ConfigError> => {
      try {
        await enter(version);
      } catch (error) {
        if (error instanceof ConfigError) return error;
        throw error;
      }
      throw new TypeError(`${asked} takes version ${version}`);
    };
    const { message, fields } = await refused(2);
    expect(message).toBe(
      `${asked} of specificationVersion 2: this Shardwise has version 1. Update the older of the two packages`,
    );
    expect(fields).toEqual({ found: 2, version: 1 });
    expect((await refused(undefined)).message).toContain('of specificationVersion undefined');
  });

  it('also as a part of what compose makes, and before a plan is made', () => {
    const other = ofVersion(2, ddp());
    expect(() => compose(ddp(), other)).toThrow('a strategy of specificationVersion 2');
    expect(() => planFor(model(), other)).toThrow('a strategy of specificationVersion 2');
  });
});
