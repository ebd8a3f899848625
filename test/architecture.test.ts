import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importsOfRoom, packageImports, roomsOf } from '../tools/architecture/import-edges.ts';
import { picture } from '../tools/architecture/picture.ts';
import { wayOfAStep } from '../tools/architecture/way-of-a-step.ts';

const root = join(import.meta.dirname, '..');
const packages = packageImports();

describe('what ARCHITECTURE.md and the READMEs say of the sources', () => {
  it('the picture is the one that follows from the imports (node tools/architecture/draw.ts)', () => {
    expect(readFileSync(join(root, 'docs/architecture.svg'), 'utf8')).toBe(picture(packages));
  });

  it.each(wayOfAStep)('a step passes $package/$room, which exists', (station) => {
    expect(existsSync(join(root, 'packages', station.package, 'src', station.room))).toBe(true);
  });

  it.each(packages)('the map in the README of $name has every room', (each) => {
    const readme = readFileSync(join(root, 'packages', each.name, 'README.md'), 'utf8');
    const map = readme.split('\n## ').at(-1) ?? '';
    const missing = roomsOf(each).filter((room) => !new RegExp(`\`(src/)?${room}/?\``).test(map));
    expect(missing).toEqual([]);
  });

  it('no two rooms import each other, of any package', () => {
    const pairs = packages.flatMap((each) =>
      roomsOf(each).flatMap((room) =>
        [...importsOfRoom(each, room)]
          .filter((other) => room < other && importsOfRoom(each, other).has(room))
          .map((other) => `${each.name}: ${room} and ${other}`),
      ),
    );
    expect(pairs).toEqual([]);
  });
});
