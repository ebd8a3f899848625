import { testEncodersOnRanks } from './encoder-ranks-table.ts';

testEncodersOnRanks({ hasAll: true });
